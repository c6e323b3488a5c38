package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// undoLater gives back in the background what an attempt with an unknown outcome may have taken. No other request has the
// same owner, so nothing of it can hit another hold, however late it comes.
func (b *Broker) undoLater(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.undoLaterLocked(w)
}

func (b *Broker) undoLaterLocked(w *waiter) {
	for _, c := range w.claimed() {
		b.undoClaimLocked(c, w.sess, 0)
	}
}

func (b *Broker) undoClaimLocked(c lock.Claim, s *Session, after time.Duration) {
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: c.Fence, Permits: c.Permits}
	b.undoReturnLocked(r, c.TTL, s, after)
}

// undoReturnLocked makes a Return in the background, for what lasts so long.
func (b *Broker) undoReturnLocked(r lock.Return, ttl time.Duration, s *Session, after time.Duration) {
	if b.closed {
		return
	}
	if s != nil {
		s.undoing++
	}
	b.goTakingLocked(func() {
		b.pause(after)
		b.undo(r, ttl)
		if s == nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		s.undoing--
	})
}

// maxUndoing bounds how many are undone at a time. When the store answers late the outcome of very much is unknown at once;
// without a bound undoing that would keep the store from answering, and more would be unknown.
const maxUndoing = 64

// undoPauses are the times after which an undo that was acknowledged is made again, in case the command that
// is to be undone was still under way.
var undoPauses = [...]time.Duration{time.Second, 10 * time.Second}

// undo releases until the store acknowledges it, and again a little later. It gives up when a lease taken at its
// beginning would have ended by itself.
func (b *Broker) undo(r lock.Return, ttl time.Duration) {
	end := time.Now().Add(max(ttl, b.cfg.SessionTTL))
	acknowledged := 0
	for n := 1; b.ctx.Err() == nil && time.Now().Before(end); n++ {
		b.undoing <- struct{}{}
		_, err := b.store.Release(b.ctx, r)
		<-b.undoing
		switch {
		case retriable(err):
			b.pause(backoff(n))
		case acknowledged == len(undoPauses):
			return
		default:
			b.pause(undoPauses[acknowledged])
			acknowledged++
			n = 0
		}
	}
}
