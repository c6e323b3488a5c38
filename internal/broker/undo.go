package broker

import (
	"cmp"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
)

// undoLater gives back in the background what an attempt with an unknown outcome may have taken. No other request has
// the same owner, so nothing of it can hit another hold, however late it comes.
func (b *Broker) undoLater(w *waiter) {
	for _, c := range w.claimed() {
		b.undoClaim(c, w.sess, 0)
	}
}

func (b *Broker) undoClaim(c lock.Claim, s *Session, after time.Duration) {
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: c.Fence, Permits: c.Permits, Tenant: c.Tenant}
	b.undoReturn(r, c.TTL, s, after)
}

// undoReturn makes a Return in the background, for what lasts so long.
func (b *Broker) undoReturn(r lock.Return, ttl time.Duration, s *Session, after time.Duration) {
	at := time.Now().Add(after)
	u := &undo{r: r, sess: s, at: at, end: at.Add(max(ttl, b.cfg.Session.TTL))}
	b.beginTaking()
	if s != nil {
		s.Undoing(1)
	}
	if !b.undos.add(u) {
		b.undone(u)
		return
	}
	b.undoSome()
}

// undo is a Return that is made until the store acknowledges it, and again a little later. It is given up when a lease
// taken at its beginning would have ended by itself.
type undo struct {
	number       uint64 // tells it from others that are due at the same time
	r            lock.Return
	sess         *Session // that counts it; nil for none
	at           time.Time
	end          time.Time
	failed       int // in a row
	acknowledged int
}

// undoPauses are the times after which an undo that was acknowledged is made again, in case the command that
// is to be undone was still under way.
var undoPauses = [...]time.Duration{time.Second, 10 * time.Second}

// maxUndoing bounds how many are undone at a time. When the store answers late the outcome of very much is unknown at
// once; without a bound undoing that would keep the store from answering, and more would be unknown.
const maxUndoing = 64

// undos are all that is to be undone. They take no goroutines: there may be very many.
type undos struct {
	mu       sync.Mutex           // guards the fields below
	waiting  *btree.BTreeG[*undo] // the one that is due first in front
	last     uint64               // number of an undo
	underWay int
	timer    *time.Timer // has some begun when the first one is due; nil while none waits
	closed   bool
}

func (u *undo) less(o *undo) bool {
	return cmp.Or(u.at.Compare(o.at), cmp.Compare(u.number, o.number)) < 0
}

// add takes an undo, unless the broker is closed.
func (us *undos) add(u *undo) bool {
	us.mu.Lock()
	defer us.mu.Unlock()
	if !us.closed {
		us.last++
		u.number = us.last
		us.waiting.ReplaceOrInsert(u)
	}
	return !us.closed
}

// next is one that is due now, nil if there is none, or if too many are under way. wake is called when the next one is.
func (us *undos) next(wake func()) *undo {
	us.mu.Lock()
	defer us.mu.Unlock()
	u, some := us.waiting.Min()
	if !some || us.underWay == maxUndoing {
		return nil
	}
	if left := time.Until(u.at); left > 0 {
		if us.timer == nil {
			us.timer = time.AfterFunc(left, wake)
		} else {
			us.timer.Reset(left)
		}
		return nil
	}
	us.underWay++
	us.waiting.DeleteMin()
	return u
}

// done notes that a call is over, and says whether another one follows.
func (us *undos) done(u *undo, again bool) bool {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.underWay--
	again = again && !us.closed
	if again {
		us.waiting.ReplaceOrInsert(u)
	}
	return again
}

// close takes no more, and returns those that wait.
func (us *undos) close() (left []*undo) {
	us.mu.Lock()
	defer us.mu.Unlock()
	us.closed = true
	if us.timer != nil {
		us.timer.Stop()
	}
	for u, some := us.waiting.DeleteMin(); some; u, some = us.waiting.DeleteMin() {
		left = append(left, u)
	}
	return left
}

// undoSome makes the calls that are due.
func (b *Broker) undoSome() {
	for {
		u := b.undos.next(b.undoSome)
		if u == nil {
			return
		}
		b.store.StartRelease(u.r, func(_ lock.Returned, err error) {
			if !b.undos.done(u, u.answered(err, time.Now())) {
				b.undone(u)
			}
			b.undoSome()
		})
	}
}

// answered plans the next call, and says whether there is one.
func (u *undo) answered(err error, now time.Time) (again bool) {
	switch {
	case lock.Retriable(err):
		u.failed++
		u.at = now.Add(arbiter.Backoff(u.failed))
	case u.acknowledged == len(undoPauses):
		return false
	default:
		u.failed = 0
		u.at = now.Add(undoPauses[u.acknowledged])
		u.acknowledged++
	}
	return now.Before(u.end)
}

// undone is called when nothing more is done for an undo.
func (b *Broker) undone(u *undo) {
	if u.sess != nil {
		u.sess.Undoing(-1)
	}
	b.endTaking()
}
