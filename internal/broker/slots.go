package broker

import "net/netip"

// slots count sessions and streams that may become one, in all and by the address of the client. Broker.mu guards them.
type slots struct {
	all int
	of  map[string]int
}

// Slot is room for one session. Who keeps it is counted before and after Open, so that streams on which nothing is said
// cannot be without number either.
type Slot struct {
	b       *Broker
	address string
	taken   bool // by a session, which frees it
	free    bool
}

// Arrive takes a slot for a client that is about to open a session. Leave it in any case.
func (b *Broker) Arrive(peer string) (*Slot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining || b.closed {
		return nil, ErrDraining
	}
	return b.slotLocked(peer)
}

// Leave frees a slot, unless a session has taken it.
func (s *Slot) Leave() {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if !s.taken {
		s.freeLocked()
	}
}

func (b *Broker) slotLocked(peer string) (*Slot, error) {
	limits, address := b.cfg.Limits, addressOf(peer)
	if b.slots.all >= limits.Sessions {
		return nil, b.metrics.denied("sessions", limits.Sessions)
	}
	if most := limits.SessionsPerAddress; most > 0 && b.slots.of[address] >= most {
		return nil, b.metrics.denied("sessions_per_address", most)
	}
	b.slots.all++
	b.slots.of[address]++
	return &Slot{b: b, address: address}, nil
}

// fillLocked gives a slot to a session: the one its client came with, or a new one.
func (b *Broker) fillLocked(s *Slot, peer string) (_ *Slot, err error) {
	switch {
	case s == nil:
		if s, err = b.slotLocked(peer); err != nil {
			return nil, err
		}
	case s.free: // its stream is over
		return nil, ErrNotOpen
	}
	s.taken = true
	return s, nil
}

func (s *Slot) freeLocked() {
	if s.free {
		return
	}
	s.free = true
	s.b.slots.all--
	if s.b.slots.of[s.address]--; s.b.slots.of[s.address] == 0 {
		delete(s.b.slots.of, s.address)
	}
}

// addressOf is the IP address of a peer, without its port. Peers that have none count as one.
func addressOf(peer string) string {
	p, err := netip.ParseAddrPort(peer)
	if err != nil {
		return ""
	}
	return p.Addr().Unmap().WithZone("").String()
}
