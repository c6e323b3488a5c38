package broker_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// foundWithin is how long a deadlock may last before it is found.
const foundWithin = 2 * time.Second

// failing opens a session whose requests are all of one actor, and fail in a deadlock.
func (w *world) failing(name string) *client {
	return w.openWith(session.OpenRequest{
		Client: session.Client{Name: name, Peer: name + ":1"}, Actor: name,
		FailsInDeadlock: true,
	})
}

// circle has clients that each hold a name and wait for that of the next one. The last one closes it.
func circle(clients []*client, kind lock.Kind) {
	for i, c := range clients {
		c.takeAs(request.Acquire{Name: name(i), Kind: kind, Annotation: "step " + strconv.Itoa(i)})
	}
	for i, c := range clients {
		c.queueAs(request.Acquire{Name: name((i + 1) % len(clients)), Kind: kind})
		time.Sleep(300 * time.Millisecond)
	}
}

func (w *world) deadlocks() []deadlock.Deadlock {
	w.t.Helper()
	time.Sleep(time.Second) // what was found just now is not told again
	found, err := w.b.Deadlocks(w.t.Context())
	must(w.t, err)
	if found.Answered != found.Asked {
		w.t.Errorf("%d of %d replicas answered", found.Answered, found.Asked)
	}
	return found.Deadlocks
}

func TestDeadlocksOverReplicasAreFoundAndTheYoungestEnds(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Write} {
		for _, n := range []int{1, 2, 3, 5} {
			if n == 1 && kind == lock.Write { // a reader or a writer of the same session
				continue
			}
			t.Run(fmt.Sprintf("%v/%d", kind, n), func(t *testing.T) {
				inWorld(t, func(w *world) { testCircle(w, kind, n) })
			})
		}
	}
}

func testCircle(w *world, kind lock.Kind, n int) {
	at := []*world{w.named("east"), w.named("west")}
	var clients []*client
	for i := range n {
		clients = append(clients, at[i%2].failing("client-"+strconv.Itoa(i)))
	}
	circle(clients, kind)
	time.Sleep(foundWithin - 300*time.Millisecond)
	last := clients[n-1]
	e := one[session.Failed](last)
	because, ok := errors.AsType[*deadlock.Error](e.Err)
	if !ok || !errors.Is(e.Err, session.ErrDeadlock) {
		w.t.Fatalf("the youngest was told %v, want a deadlock", e.Err)
	}
	checkCircle(w.t, because.Deadlock, n)
	for _, c := range clients[:n-1] {
		c.none()
	}
	last.Goodbye()
	if n > 1 {
		one[session.Granted](clients[n-2])
	}
	if left := w.deadlocks(); len(left) != 0 {
		w.t.Errorf("there are still deadlocks: %+v", left)
	}
}

// checkCircle compares with what circle made. The youngest comes first.
func checkCircle(t testing.TB, d deadlock.Deadlock, n int) {
	t.Helper()
	if len(d.Members) != n {
		t.Fatalf("got %+v, want %d members", d, n)
	}
	for i, m := range d.Members {
		who := (n - 1 + i) % n
		replica := []string{"east", "west"}[who%2]
		client := "client-" + strconv.Itoa(who)
		if m.About.Client != client || m.About.Peer != client+":1" || m.About.Replica != replica || !m.About.Fails ||
			m.Want.Name != name((who+1)%n) || m.Age <= 0 || m.HeldBy == "" || m.Fence == 0 || m.About.Session == "" {
			t.Errorf("member %d is told as %+v", i, m)
		}
	}
}

// Who did not ask for it goes on waiting, and is told of.
func TestADeadlockIsShownByEveryReplicaAndCountedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		east, west := w.named("east"), w.named("west")
		a, b := east.as("a"), west.as("b")
		a.takeAs(request.Acquire{Name: "x", Holder: "main"})
		b.takeAs(request.Acquire{Name: "y", Holder: "main"})
		a.queueAs(request.Acquire{Name: "y", Holder: "main"})
		time.Sleep(time.Second)
		b.queueAs(request.Acquire{Name: "x", Holder: "main"})
		time.Sleep(10 * time.Second)
		for _, at := range []*world{w, east, west} {
			found := at.deadlocks()
			if len(found) != 1 || len(found[0].Members) != 2 || found[0].Members[0].About.Client != "b" ||
				found[0].Victim != "" {
				t.Errorf("got %+v", found)
			}
		}
		for at, want := range map[*world]float64{w: 0, east: 0, west: 1} {
			if found, lasts := at.metric("lockd_deadlocks_found_total"), at.metric("lockd_deadlocks"); found != want ||
				lasts != want {
				t.Errorf("%s: found %v, lasting %v, want %v", at.b.Replica(), found, lasts, want)
			}
		}
		a.none()
		b.none()
		b.Goodbye()
		one[session.Granted](a)
		if lasts := west.metric("lockd_deadlocks"); lasts != 0 {
			t.Errorf("%v deadlocks last, want none", lasts)
		}
	})
}

// A replica is asked nothing when nobody waits.
func TestNobodyIsAskedWhileNobodyWaits(t *testing.T) {
	inWorld(t, func(w *world) {
		asked := 0
		w.store.Subscribe("deadlocks", func([]byte) { asked++ })
		a, b := w.failing("a"), w.failing("b")
		a.take("x")
		b.take("y")
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if asked != 0 {
			t.Errorf("%d questions were asked, want none", asked)
		}
		b.Hear()
		b.queue("x")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if asked == 0 || asked > 40 {
			t.Errorf("%d questions were asked in 10 s of waiting", asked)
		}
	})
}
