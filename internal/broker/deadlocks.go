package broker

import (
	"cmp"
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// What package deadlock has to know: who waits, who holds, and who those are. All of it is found when it is asked for,
// so that it costs nothing to take a lock, and nothing to hold one.

// Deadlocks finds the deadlocks among the sessions of all replicas.
func (b *Broker) Deadlocks(ctx context.Context) (deadlock.Found, error) { return b.finder.Look(ctx) }

// actorOf is the actor that holds a lock or waits for it: the one that the client names, else the named holder. It is
// empty if there is neither: nobody knows which requests of a session come from the same thread.
func actorOf(actor, holder string, s *session.Session) string {
	switch {
	case actor != "":
		return "actor:" + actor
	case named(holder):
		return "holder:" + s.ID() + ":" + holder
	default:
		return ""
	}
}

// Waits implements deadlock.Local.
func (o local) Waits(actors []string, since time.Duration, most int) (waits []deadlock.Wait, more bool) {
	at := time.Now().Add(-since)
	only := make(map[string]bool, len(actors))
	for _, a := range actors {
		only[a] = true
	}
	ws, more := o.waiting(most, func(w *waiter) bool {
		return w.ofActor(at) && (len(only) == 0 || only[actorOf(w.actor, w.holder, w.sess.Session)])
	})
	for _, w := range ws {
		if wait, waiting := w.wait(len(only) > 0); waiting {
			wait.Actor = actorOf(w.actor, w.holder, w.sess.Session)
			waits = append(waits, wait)
		}
	}
	return waits, more
}

// AnyWaits implements deadlock.Local.
func (o local) AnyWaits(since time.Duration) (found bool) {
	at := time.Now().Add(-since)
	o.eachShard(func(h *shard) {
		for w := range h.waiting {
			if found = found || w.sess != nil && w.ofActor(at); found {
				return
			}
		}
	})
	return found
}

// ofActor says whether a session's request has a known actor, and came here no later than by.
func (w *waiter) ofActor(by time.Time) bool {
	return (w.actor != "" || named(w.holder)) && !w.Since.After(by)
}

// wait describes a request, if it waits. about adds what people read.
func (w *waiter) wait(about bool) (wait deadlock.Wait, waiting bool) {
	w.lock()
	defer w.unlock()
	if !w.shard.waiting[w] {
		return wait, false
	}
	wait = deadlock.Wait{Owner: w.Claim.Owner, Age: time.Since(w.firstAsked())}
	for _, c := range w.claimed() {
		wait.Wants = append(wait.Wants, deadlock.Want{Name: c.Name, Kind: c.Kind, Permits: c.Permits})
	}
	if about {
		c := w.sess.Client()
		wait.About = &deadlock.About{
			Session: w.sess.ID(), Client: c.Name, Peer: c.Peer, Replica: w.b.cfg.Replica,
			Annotation: inspect.Shortened(w.annotation), Fails: w.sess.FailsInDeadlock(),
		}
		if w.Wait != arbiter.Forever {
			wait.About.TimeLeft = max(time.Until(w.Since.Add(w.Wait)), time.Millisecond)
		}
	}
	return wait, true
}

// Holds implements deadlock.Local.
func (o local) Holds(name string, most int) (holds []deadlock.Hold) {
	o.withQueue(name, func(q *queue) {
		for l := range q.leasesLocked() {
			if len(holds) == most {
				break
			}
			actor := actorOf(cmp.Or(l.actor, l.sess.Actor()), l.holder, l.sess.Session)
			if actor != "" && !l.over {
				holds = append(holds, deadlock.Hold{
					Actor: actor, Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, Permits: l.permits,
				})
			}
		}
	})
	return holds
}

// IsWaiting implements deadlock.Local.
func (o local) IsWaiting(owner lock.Owner) (waits bool) {
	o.withWaiter(owner, func(*waiter) { waits = true })
	return waits
}

// Fail implements deadlock.Local.
func (o local) Fail(owner lock.Owner, because *deadlock.Error) (done bool) {
	o.withWaiter(owner, func(w *waiter) {
		if w.sess.FailsInDeadlock() {
			o.refuseLocked(w, session.Failed{ID: w.id, Err: because})
			done = true
		}
	})
	return done
}

// withWaiter calls f with a request that waits here, with its mutexes held.
func (b *Broker) withWaiter(owner lock.Owner, f func(w *waiter)) {
	id, _, request := partsOf(owner)
	s := b.sessions.Session(id)
	if s == nil {
		return
	}
	waits, there := s.Waiting(request)
	if !there {
		return
	}
	w := waits.(*waiter)
	w.lock()
	defer w.unlock()
	if w.shard.waiting[w] && w.Claim.Owner == owner {
		f(w)
	}
}
