package broker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// namedClient opens the session of a client that says who it is, and is heard.
func (w *world) namedClient(name string) *client {
	c := w.openWith(session.OpenRequest{Client: session.Client{Name: name, Peer: name + ":1"}})
	w.t.Cleanup(c.beats())
	return c
}

// TestARefusalTellsWhoIsInTheWay is of a holder at this replica, of a session and without one.
func TestARefusalTellsWhoIsInTheWay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.namedClient("nightly").takeAs(request.Acquire{Name: "job", Annotation: "back up"})
		w.mustOnce(request.Once{Name: "once", Lease: time.Hour, Client: "nightly", Peer: "nightly:1", Annotation: "back up"})
		c := w.open()
		time.Sleep(7 * time.Second)
		for _, name := range []string{"job", "once"} {
			c.acquire(request.Acquire{Name: name, Wait: new(time.Duration(0))})
			by := one[session.NotGranted](c).InTheWay
			if by.HeldBy == "" || by.Client != "nightly" || by.Annotation != "back up" || by.Peer != "nightly:1" ||
				by.HeldFor != 7*time.Second {
				t.Errorf("%s: got %+v", name, by)
			}
		}
	})
}

// TestWhoWaitsIsToldWhoIsInTheWay fails if a request that wants to know is not told at once of a holder here, and a
// little later of one elsewhere or another one; or if one is told that does not want to know.
func TestWhoWaitsIsToldWhoIsInTheWay(t *testing.T) {
	inWorld(t, func(w *world) {
		here, next, elsewhere := w.namedClient("here"), w.namedClient("next"), w.replica().namedClient("elsewhere")
		hold := here.take("job").Hold
		next.queue("job")
		elsewhere.takeAs(request.Acquire{Name: "far", Annotation: "note"})
		c, unasked := w.alive(), w.alive()
		unasked.acquire(request.Acquire{Name: "job"})
		if q := one[session.Queued](unasked); q.By != nil {
			t.Errorf("got %+v, want nothing that was not asked for", q.By)
		}

		c.acquire(request.Acquire{Name: "job", TellHolder: true})
		if q := one[session.Queued](c); q.By == nil || q.By.Client != "here" || q.By.Peer != "here:1" || q.Position != 2 {
			t.Errorf("got %+v", q)
		}
		time.Sleep(time.Minute)
		c.none() // nothing has changed
		here.release(hold)
		time.Sleep(5 * time.Second)
		var last session.Queued
		for _, e := range c.events() {
			last = e.(session.Queued)
		}
		if last.By == nil || last.By.Client != "next" {
			t.Errorf("got %+v, want the next holder", last)
		}

		c.acquire(request.Acquire{Name: "far", TellHolder: true})
		if q := one[session.Queued](c); q.By == nil || q.By.HeldBy == "" || q.By.Client != "" {
			t.Errorf("got %+v, want the owner alone", q.By)
		}
		time.Sleep(2 * time.Second)
		by := one[session.Queued](c).By
		if by.Client != "elsewhere" || by.Annotation != "note" || by.HeldFor < time.Minute {
			t.Errorf("got %+v, want who holds it elsewhere", by)
		}
		time.Sleep(time.Minute)
		c.none()
	})
}

// TestNobodyIsToldOfANameThatIsHidden has who asks have no right to look.
func TestNobodyIsToldOfANameThatIsHidden(t *testing.T) {
	inWorld(t, func(w *world) {
		w.namedClient("secret").take("job")
		c := w.openWith((&locksOnly{}).opening())
		w.t.Cleanup(c.beats())
		c.acquire(request.Acquire{Name: "job", Wait: new(time.Duration(0))})
		if n := one[session.NotGranted](c); n.InTheWay != (session.InTheWay{}) {
			t.Errorf("got %+v", n.InTheWay)
		}
		c.acquire(request.Acquire{Name: "job", TellHolder: true})
		if q := one[session.Queued](c); *q.By != (session.InTheWay{}) {
			t.Errorf("got %+v", q.By)
		}
		time.Sleep(time.Minute)
		c.none()
	})
}

// locksOnly is a client that may look at nothing.
type locksOnly struct{ someone }

func (*locksOnly) MayLook(name string) error {
	return &session.ForbiddenError{Right: "look", Name: name}
}

func (p *locksOnly) opening() session.OpenRequest {
	req := p.someone.opening()
	req.Identity = p
	return req
}

// TestLooksAreFew fails if many who wait for what is held elsewhere have the store asked as often.
func TestLooksAreFew(t *testing.T) {
	inWorld(t, func(w *world) {
		holder, c := w.replica().alive(), w.alive()
		for i := range 10 * limits.LooksPerSecond {
			holder.acquire(request.Acquire{Name: name(i)})
			holder.awaitGrant()
			c.acquire(request.Acquire{Name: name(i), TellHolder: true})
		}
		synctest.Wait()
		before := w.store.looks.Load()
		time.Sleep(4 * time.Second)
		if n := w.store.looks.Load() - before; n > 6*limits.LooksPerSecond || n == 0 {
			t.Errorf("the store was asked %d times in 4 s", n)
		}
		c.Goodbye()
		<-c.Done()
		before = w.store.looks.Load()
		time.Sleep(time.Minute)
		if n := w.store.looks.Load() - before; n > 0 {
			t.Errorf("the store was asked %d times for nobody", n)
		}
	})
}

// TestLooksLeaveRoomForOperators fails if those who wait have all questions under way, as a replica does not answer.
func TestLooksLeaveRoomForOperators(t *testing.T) {
	inWorld(t, func(w *world) {
		lonely := startOn(w.t, testConfig(), silentStore{w.store})
		holder, c := w.alive(), lonely.alive()
		for i := range limits.LooksPerSecond {
			holder.acquire(request.Acquire{Name: name(i)})
			holder.awaitGrant()
			c.acquire(request.Acquire{Name: name(i), TellHolder: true})
		}
		time.Sleep(1500 * time.Millisecond)
		lonely.inspect(name(0))
	})
}

// TestAWaitForAHolderElsewhereOfSeveralNames tells which of the names is in the way.
func TestAWaitForAHolderElsewhereOfSeveralNames(t *testing.T) {
	inWorld(t, func(w *world) {
		w.replica().namedClient("elsewhere").take("b")
		c := w.alive()
		c.acquire(request.Acquire{
			Name: "a", More: []request.Item{{Name: "b", Kind: lock.Exclusive}}, List: request.Names, TellHolder: true,
		})
		c.events()
		time.Sleep(2 * time.Second)
		var told []string
		for _, e := range c.events() {
			told = append(told, fmt.Sprintf("%s %s", e.(session.Queued).By.Name, e.(session.Queued).By.Client))
		}
		if len(told) != 1 || told[0] != "b elsewhere" {
			t.Errorf("got %q", told)
		}
	})
}
