package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// settle, settleWaiterLocked and settleLocked give back in the background what an attempt with an unknown outcome may have taken or not
// given back. No other request has the same owner, so nothing of it can hit another hold, however late it comes.
func (b *Broker) settle(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleWaiterLocked(w)
}

func (b *Broker) settleWaiterLocked(w *waiter) {
	for _, c := range w.claimed() {
		b.settleLocked(c, w.sess, 0)
	}
}

func (b *Broker) settleLocked(c lock.Claim, s *Session, after time.Duration) {
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: c.Fence, Permits: c.Permits}
	b.settleReturnLocked(r, c.TTL, s, after)
}

// settleReturnLocked makes a Return in the background, for what lasts so long.
func (b *Broker) settleReturnLocked(r lock.Return, ttl time.Duration, s *Session, after time.Duration) {
	if b.closed {
		return
	}
	if s != nil {
		s.unsettled++
	}
	b.takeLocked(func() {
		b.pause(after)
		b.compensate(r, ttl)
		if s == nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		s.unsettled--
	})
}

// settlePauses are the times after which a compensation that was acknowledged is made again, in case the command that
// is to be undone was still under way.
var settlePauses = [...]time.Duration{time.Second, 10 * time.Second}

// compensate releases until the store acknowledges it, and again a little later. It gives up when a lease taken at its
// beginning would have ended by itself.
func (b *Broker) compensate(r lock.Return, ttl time.Duration) {
	end := time.Now().Add(max(ttl, b.cfg.SessionTTL))
	acknowledged := 0
	for n := 1; b.ctx.Err() == nil && time.Now().Before(end); n++ {
		_, err := b.store.Release(b.ctx, r)
		switch {
		case retriable(err):
			b.pause(backoff(n))
		case acknowledged == len(settlePauses):
			return
		default:
			b.pause(settlePauses[acknowledged])
			acknowledged++
			n = 0
		}
	}
}
