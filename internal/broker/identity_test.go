package broker_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// someone is a client of a clients file.
type someone struct {
	name    string
	without string // names that begin with it are forbidden; empty: none are
	gone    error
	until   time.Time
	later   time.Duration // how much longer its credentials count than they say
	behind  time.Duration // how much later than until Still fails
	denied  int           // how often it was told so
	asked   func()        // called when a right is asked for; nil: nothing
}

func (p *someone) Client() string { return p.name }
func (p *someone) MayLock(name string) error {
	if p.asked != nil {
		p.asked()
	}
	if p.without != "" && strings.HasPrefix(name, p.without) {
		return &session.ForbiddenError{Client: p.name, Right: "lock", Name: name}
	}
	return nil
}
func (p *someone) MayLook(name string) error { return p.MayLock(name) }
func (p *someone) Still() error {
	if !p.until.IsZero() && !time.Now().Before(p.until.Add(p.behind)) {
		return session.ErrUnauthenticated
	}
	return p.gone
}
func (p *someone) Until() time.Time   { return p.until }
func (p *someone) Expires() time.Time { return p.until.Add(-p.later) }

func (p *someone) Told(_ string, e session.Event) {
	if f, failed := e.(session.Failed); failed && isError(f.Err, session.ErrForbidden) {
		p.denied++
	}
}

func (p *someone) opening() session.OpenRequest {
	return session.OpenRequest{
		ComesBack: true, Identity: p,
		Client: session.Client{Identity: p.name, Tenant: lock.Tenant("client " + p.name)},
	}
}

// forbids changes what a client may, as a new clients file does.
func (w *world) forbids(p *someone, begin string, holds bool) {
	p.without = begin
	w.b.Review(holds, nil)
}

func TestNoNameIsTakenOfWhichOneIsForbidden(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing", without: "prod"}
		c := w.openWith(p.opening())
		more := []request.Item{{Name: "prod:x", Kind: lock.Exclusive}}
		c.acquire(request.Acquire{Name: "mine", More: more, List: request.Names})
		c.failed(session.ErrForbidden)
		w.free("mine")
		_, _, err := w.once(request.Once{Name: "prod:x", Identity: p})
		if !isError(err, session.ErrForbidden) {
			t.Errorf("a unary call: got %v", err)
		}
		c.Watch(c.id(), "prod:x")
		c.failed(session.ErrForbidden)
		c.take("mine")
	})
}

// A session may end, and a request be cancelled, while one of its requests is refused.
func TestARequestIsRefusedWhileItsSessionEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing", without: "prod"}
		c := w.openWith(p.opening())
		ended := make(chan struct{})
		p.asked = func() {
			p.asked = nil
			go func() { c.End(errors.New("the client left")); close(ended) }()
			for range 10_000 { // until that waits for the name
				runtime.Gosched()
			}
		}
		c.acquire(request.Acquire{Name: "prod:x"})
		<-ended
		w.free("prod:x")
	})
}

// What waits and watches without a right ends at once. Holds live on, or are lost and free.
func TestARightIsWithdrawn(t *testing.T) {
	for _, holds := range []bool{false, true} {
		inWorld(t, func(w *world) {
			p := &someone{name: "billing"}
			c, other := w.openWith(p.opening()), w.open()
			held := c.take("prod:held").Hold
			c.take("mine")
			taken := other.take("prod:other").Hold
			c.queue("prod:other")
			c.Watch(c.id(), "prod:other")
			one[session.Done](c)
			once := make(chan error, 1)
			go func() {
				_, _, err := w.once(request.Once{Name: "prod:other", Wait: new(time.Hour), Identity: p})
				once <- err
			}()
			c.none()
			w.forbids(p, "prod", holds)
			told := c.events()
			if len(told) < 2 || !isError(told[0].(session.Failed).Err, session.ErrForbidden) {
				t.Fatalf("got %#v, want that the wait has failed", told)
			}
			if u, ok := told[1].(session.Unwatched); !ok || u.Name != "prod:other" || !isError(u.Err, session.ErrForbidden) {
				t.Errorf("got %#v, want Unwatched", told[1])
			}
			if err := <-once; !isError(err, session.ErrForbidden) {
				t.Errorf("a unary call that waits: got %v", err)
			}
			if lost := told[2:]; holds && (len(lost) != 1 || lost[0].(session.Lost).Reason != lock.LostForbidden) || !holds &&
				len(lost) > 0 {
				t.Errorf("holds are kept: %v, and told is %#v", !holds, lost)
			}
			if got := w.look("prod:held").Held; got == holds {
				t.Errorf("holds are kept: %v, and it is held: %v", !holds, got)
			}
			other.release(taken)
			c.none()
			c.acquire(request.Acquire{Name: "prod:new"})
			c.failed(session.ErrForbidden)
			if !holds { // what it has it can release
				c.release(held)
			}
			c.take("mine too")
		})
	}
}

// A client may lose very many names at once. It is told at once, and few of them are freed at a time: what the store
// does not answer in time is left to run out, of those that are too many.
func TestVeryManyForbiddenNamesAreFreed(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing"}
		const holds = 1000
		for s := range 2 {
			c := w.openWith(p.opening())
			defer c.beats()()
			for i := range holds / 2 {
				c.take(fmt.Sprint("x", s, " ", i))
			}
		}
		var now, most atomic.Int64
		w.store.on("Release", func(next func() error) error {
			most.Store(max(most.Load(), now.Add(1))) // one after the other
			defer now.Add(-1)
			time.Sleep(time.Second)
			return next()
		})
		w.forbids(p, "x", true)
		if n := w.b.Status().Locks; n != 0 {
			t.Errorf("%d are held yet", n)
		}
		time.Sleep(10 * time.Second)
		if most.Load() > 256 {
			t.Errorf("%d are freed at a time", most.Load())
		}
		for i := range holds / 2 {
			w.free(fmt.Sprint("x0 ", i))
			w.free(fmt.Sprint("x1 ", i))
		}
	})
}

// A session, and a unary lease, belong to who made them. Another client gets the answer for what does not exist.
func TestWhatSomebodyHasNobodyElseHas(t *testing.T) {
	inWorld(t, func(w *world) {
		p, thief := &someone{name: "billing"}, &someone{name: "thief"}
		c := w.openWith(p.opening())
		g := c.take("job")
		for _, who := range []*someone{thief, nil} {
			req := c.resumption(2, claims(true, g.Hold))
			if who != nil {
				req.OpenRequest = who.opening()
			}
			w.resumeErr(req, session.ErrSessionExpired)
		}
		req := c.resumption(3, claims(true, g.Hold))
		req.OpenRequest = p.opening()
		if _, lost := w.resume(req); len(lost) > 0 {
			t.Errorf("its own session came back without %v", lost)
		}
		l := w.mustOnce(request.Once{Name: "once", LeaseID: ownID, Identity: p, Tenant: "client billing"})
		for _, who := range []session.Identity{thief, nil} {
			again := request.Once{Name: "once", Kind: lock.Exclusive, LeaseID: l.LeaseID, Lease: time.Minute, Identity: who}
			if _, err := w.b.ExtendOnce(again); !isError(err, lock.ErrNotHeld) {
				t.Errorf("extended by somebody else: %v", err)
			}
			if _, err := w.b.ReleaseOnce(again); !isError(err, lock.ErrNotHeld) {
				t.Errorf("released by somebody else: %v", err)
			}
			if _, refused, err := w.once(again); refused == nil {
				t.Errorf("taken once more by somebody else: %v", err)
			}
		}
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "once", Kind: lock.Exclusive, LeaseID: l.LeaseID, Identity: p,
		}); err != nil {
			t.Error(err)
		}
	})
}

// Before its credentials expire a client is asked to come with new ones. Then, and when it is somebody else by the
// clients file, its session ends, and its locks end as after a silent client.
func TestASessionEndsWithItsCredentials(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing", until: time.Now().Add(10 * time.Second)}
		c := w.openWith(p.opening())
		stop := c.beats()
		defer stop()
		c.take("job")
		time.Sleep(9*time.Second - time.Millisecond)
		c.none()
		time.Sleep(time.Second/4 + 2*time.Millisecond)
		if d := one[session.Draining](c); d.Within > time.Second {
			t.Errorf("asked to move within %v, and it ends in a second", d.Within)
		}
		time.Sleep(3 * time.Second / 4)
		<-c.Done()
		if !isError(c.Cause(), session.ErrUnauthenticated) || !w.look("job").Held {
			t.Errorf("it ended with %v, and the lock is held: %v", c.Cause(), w.look("job").Held)
		}
		// They are asked before the credentials say that they expire; and who comes with the old ones then, once more.
		old := &someone{name: "billing", until: time.Now().Add(90 * time.Second), later: time.Minute}
		begun := time.Now()
		for _, row := range []struct{ opens, asked, lead time.Duration }{
			{0, 27 * time.Second, 3 * time.Second}, {40 * time.Second, 85 * time.Second, 5 * time.Second},
		} {
			time.Sleep(time.Until(begun.Add(row.opens)))
			c = w.openWith(old.opening())
			stop := c.beats()
			time.Sleep(time.Until(begun.Add(row.asked - time.Millisecond)))
			c.none()
			time.Sleep(row.lead/4 + 2*time.Millisecond)
			one[session.Draining](c)
			stop()
		}
		q := &someone{name: "ci"}
		c = w.openWith(q.opening())
		q.gone = session.ErrUnauthenticated
		w.b.Review(false, nil)
		<-c.Done()
		if !isError(c.Cause(), session.ErrUnauthenticated) {
			t.Errorf("it ended with %v", c.Cause())
		}
	})
}

// A certificate that all have expires for all at once. They are not asked to move at once.
func TestSessionsOfOneCertificateAreAskedToMoveOneAfterTheOther(t *testing.T) {
	inWorld(t, func(w *world) {
		const many, lead = 100, 5 * time.Minute
		p := &someone{name: "billing", until: time.Now().Add(2 * time.Hour)}
		var cs []*client
		for range many {
			c := w.openWith(p.opening())
			defer c.beats()()
			cs = append(cs, c)
		}
		asked := func() (n int) {
			for _, c := range cs {
				n += len(c.events())
			}
			return n
		}
		time.Sleep(2*time.Hour - lead - time.Millisecond)
		before, most := asked(), 0
		for range 15 { // a fifteenth of the time each
			time.Sleep(lead / 4 / 15)
			n := asked()
			before, most = before+n, max(most, n)
		}
		time.Sleep(time.Second)
		if before += asked(); before != many || most > many/4 {
			t.Errorf("%d of %d were asked, and %d of them in a fifteenth of the time", before, many, most)
		}
	})
}

// All sessions of a client have its quotas together, and get back what they gave up.
func TestTheSessionsOfAClientShareItsQuotas(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing"}
		mine := p.opening().Client.Tenant
		w.b.Review(false, limits.Allowances{mine: {Sessions: 2, Locks: 3, Waiting: 1, Watches: 1}})
		c, d, other := w.openWith(p.opening()), w.openWith(p.opening()), w.open()
		if _, err := w.b.Open(p.opening()); !isQuota(err, "client_sessions") {
			t.Errorf("a third session: got %v", err)
		}
		first := c.take("a").Hold
		d.take("b")
		other.take("x")
		c.queue("x")
		refused := func(c *client, subject string) {
			t.Helper()
			if e := one[session.Failed](c); !isQuota(e.Err, subject) {
				t.Errorf("got %v, want %s", e.Err, subject)
			}
		}
		d.acquire(request.Acquire{Name: "c"})
		refused(d, "client_locks")
		c.release(first)
		d.acquire(request.Acquire{Name: "x"})
		refused(d, "client_waiting")
		d.Watch(d.id(), "x")
		one[session.Done](d)
		c.Watch(c.id(), "x")
		refused(c, "client_watches")
		d.Goodbye()
		<-d.Done()
		c.Watch(c.id(), "x")
		one[session.Done](c)
		c.Goodbye()
		<-c.Done()
		for _, u := range w.b.Tenants().Usages(mine) {
			if u.Used != 0 {
				t.Errorf("%d %s are used yet", u.Used, u.Subject)
			}
		}
		w.b.Review(false, nil) // no quotas any more
		c = w.openWith(p.opening())
		for i := range 5 {
			c.take(name(i))
		}
	})
}

// A unary call that waits ends when its caller is nobody any more, although what it was may go on: its token is another
// one's now.
func TestAUnaryCallWaitsOnlyForWhoItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing"}
		taken := w.alive().take("job").Hold
		once := make(chan error, 1)
		go func() {
			_, _, err := w.once(request.Once{Name: "job", Wait: new(time.Hour), Identity: p})
			once <- err
		}()
		synctest.Wait()
		p.gone = session.ErrUnauthenticated
		w.b.Review(false, nil)
		if err := <-once; !isError(err, session.ErrUnauthenticated) {
			t.Errorf("got %v while %q is held", err, taken.Name)
		}
		if _, _, err := w.once(request.Once{Name: "free", Identity: p}); !isError(err, session.ErrUnauthenticated) {
			t.Errorf("a new one: got %v", err)
		}
	})
}

// A unary call that waits does not outlive the credentials that it was made with.
func TestAUnaryCallWaitsNoLongerThanItsCredentials(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing", until: time.Now().Add(10 * time.Second), behind: time.Second}
		w.alive().take("job")
		began := time.Now()
		_, _, err := w.once(request.Once{Name: "job", Wait: new(time.Hour), Identity: p})
		if took := time.Since(began); !isError(err, session.ErrUnauthenticated) || took > 12*time.Second {
			t.Errorf("after %v: got %v", took, err)
		}
	})
}

// Clocks are set: when the time comes the credentials may be good yet, for a moment.
func TestCredentialsExpireAlsoWhenClocksAreSet(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing", until: time.Now().Add(10 * time.Second), behind: time.Second}
		c := w.openWith(p.opening())
		defer c.beats()()
		time.Sleep(12 * time.Second)
		select {
		case <-c.Done():
		default:
			t.Error("it has a session with credentials that have expired")
		}
	})
}

// Unary calls that are under way are counted with the sessions of their client.
func TestUnaryCallsThatWaitAreCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing"}
		mine := p.opening().Client.Tenant
		w.b.Review(false, limits.Allowances{mine: {Waiting: 1}})
		w.alive().take("job")
		for range 2 {
			go func() { _, _, _ = w.once(request.Once{Name: "job", Wait: new(time.Minute), Identity: p, Tenant: mine}) }()
			time.Sleep(time.Second)
			if _, _, err := w.once(request.Once{Name: "x", Identity: p, Tenant: mine}); !isQuota(err, "client_waiting") {
				t.Errorf("got %v", err)
			}
			time.Sleep(time.Minute)
		}
		w.mustOnce(request.Once{Name: "x", Identity: p, Tenant: mine})
	})
}

// What a client is refused is noted, whether it reads its answers or not.
func TestWhoDoesNotReadIsNotedAllTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing", without: "prod"}
		c := w.openWith(p.opening())
		c.take("job")
		c.Detach(errors.New("its stream broke"))
		c.acquire(request.Acquire{Name: "prod:x"})
		c.Watch(c.id(), "prod:x")
		if c.none(); p.denied != 2 {
			t.Errorf("%d are noted", p.denied)
		}
	})
}

// What is asked of the store later is asked with the rights of then.
func TestAQuestionThatWaitsNeedsItsRightYet(t *testing.T) {
	inWorld(t, func(w *world) {
		p := &someone{name: "billing"}
		c := w.openWith(p.opening())
		slow := func(next func() error) error { time.Sleep(time.Second); return next() }
		w.store.on("SetLimit", slow)
		w.store.on("Look", slow)
		for range limits.Asking + 1 {
			c.SetLimit(c.id(), request.SetLimit{Name: "prod:s", Limit: 3})
		}
		c.Look(c.id(), "prod:s")
		c.none()
		w.forbids(p, "prod", false)
		time.Sleep(3 * time.Second)
		refused := 0
		for _, e := range c.events() {
			if f, failed := e.(session.Failed); failed && isError(f.Err, session.ErrForbidden) {
				refused++
			}
		}
		if refused != 2 {
			t.Errorf("%d are refused, want those that were not asked yet", refused)
		}
	})
}
