package session

import "github.com/lockd-io/lockd/internal/limits"

const idWindow = limits.RequestIDs

// requestIDs remembers which request ids a session has used, in bounded memory: the greatest one, and one bit for
// each of the idWindow ids up to it. It is the anti-replay window of IPsec (RFC 4303, 3.4.3).
type requestIDs struct {
	greatest uint64
	seen     [idWindow / 64]uint64
}

// use marks an id as used and says whether it was not used before.
func (r *requestIDs) use(id uint64) bool {
	if id == 0 || id+idWindow <= r.greatest && id+idWindow > id {
		return false
	}
	if id > r.greatest {
		r.advance(id)
	}
	word, bit := &r.seen[id/64%uint64(len(r.seen))], uint64(1)<<(id%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

// useAll marks all ids up to one as used.
func (r *requestIDs) useAll(last uint64) {
	r.greatest = last
	for i := range r.seen {
		r.seen[i] = ^uint64(0)
	}
}

// advance moves the window up to id and forgets what falls out of it.
func (r *requestIDs) advance(id uint64) {
	if id-r.greatest >= idWindow {
		r.seen = [idWindow / 64]uint64{}
	} else {
		r.forget(r.greatest+1, id)
	}
	r.greatest = id
}

// forget takes the marks from the ids from first to last, 64 at a time.
func (r *requestIDs) forget(first, last uint64) {
	low, high := ^uint64(0)<<(first%64), ^uint64(0)>>(63-last%64)
	if first/64 == last/64 {
		r.seen[first/64%uint64(len(r.seen))] &^= low & high
		return
	}
	r.seen[first/64%uint64(len(r.seen))] &^= low
	for word := first/64 + 1; word < last/64; word++ {
		r.seen[word%uint64(len(r.seen))] = 0
	}
	r.seen[last/64%uint64(len(r.seen))] &^= high
}
