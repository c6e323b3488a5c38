package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// All sessions of an address have no more locks together than it may have, and those of short sessions count as the
// renewals that they cause. What they release others may have.
func TestTheLocksOfOneAddressAreBounded(t *testing.T) {
	for _, row := range []struct {
		ttl  time.Duration
		kind lock.Kind
		most int
	}{
		{10 * time.Second, lock.Exclusive, 12},
		{time.Minute, lock.Read, 6},
		{5 * time.Second, lock.Exclusive, 6},
		{1500 * time.Millisecond, lock.Exclusive, 1},
	} {
		t.Run(fmt.Sprint(row), func(t *testing.T) {
			cfg := testConfig()
			cfg.Limits.LocksPerAddress = 12
			inWorldWith(t, cfg, func(w *world) {
				open := func(from string) *client {
					return w.openWith(session.OpenRequest{TTL: row.ttl, Client: session.Client{Tenant: lock.Tenant(from)}})
				}
				two, other := [2]*client{open("10.0.0.1"), open("10.0.0.1")}, open("10.0.0.2")
				ask := func(c *client, i int, wait time.Duration) session.Event {
					c.acquire(request.Acquire{Name: fmt.Sprint("n", i), Kind: row.kind, Wait: &wait})
					synctest.Wait()
					all := c.events()
					return all[len(all)-1]
				}
				var first session.Hold
				for i := range row.most {
					g, ok := ask(two[i%2], i, 0).(session.Granted)
					if !ok {
						t.Fatalf("lock %d was not granted", i)
					}
					if i == 0 {
						first = g.Hold
					}
				}
				for _, wait := range []time.Duration{0, time.Minute} {
					e, _ := ask(two[1], 100, wait).(session.Failed)
					if q, ok := errors.AsType[*session.QuotaError](e.Err); !ok || q.Subject != "locks_per_address" || q.Limit != 12 {
						t.Errorf("one more: got %v", e.Err)
					}
				}
				if _, ok := ask(other, 101, 0).(session.Granted); !ok {
					t.Error("another address is refused")
				}
				two[0].Release(two[0].id(), first)
				synctest.Wait()
				if _, ok := ask(two[1], 102, 0).(session.Granted); !ok {
					t.Error("what was released cannot be had")
				}
				for _, c := range two {
					c.Goodbye()
				}
				synctest.Wait()
				if g, ok := ask(open("10.0.0.1"), 103, 0).(session.Granted); !ok {
					t.Errorf("sessions that have ended are counted: %v", g)
				}
			})
		})
	}
}

// users are the sessions and calls of a client with quotas, which do random things at two replicas.
type users struct {
	t        testing.TB
	rng      *rand.Rand
	who      *someone
	replicas [2]*world
	clients  []*user
	calls    [2]atomic.Int64 // unary ones under way
}

// user is one of these sessions, as its client knows it.
type user struct {
	*client
	at    int // the replica
	epoch uint64
	stop  func() // of its heartbeats
	holds []session.Hold
	asked []uint64
}

const mostUsers = 4

var allowed = limits.Allowance{Sessions: mostUsers, Locks: 9, Waiting: 2, Watches: 2}

// What a client is counted to have is what its sessions and calls hold, ask for and watch, whatever they do and however
// they end, and nothing in the end.
func TestWhatAClientUsesIsCounted(t *testing.T) {
	for _, seed := range seeds(1, 2, 3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(w *world) {
				u := &users{
					t: w.t, rng: rand.New(rand.NewPCG(seed, 1)), who: &someone{name: "billing"},
					replicas: [2]*world{w, w.replica()},
				}
				u.run()
			})
		})
	}
}

func (u *users) run() {
	all := limits.Allowances{u.who.opening().Client.Tenant: allowed}
	for _, w := range u.replicas {
		w.b.Review(false, all)
	}
	other := u.replicas[0].alive()
	for range 600 {
		u.act(all)
		if u.rng.IntN(3) == 0 {
			other.acquire(request.Acquire{Name: name(u.rng.IntN(3)), Wait: new(time.Duration)})
		}
		for _, e := range other.events() {
			if g, is := e.(session.Granted); is && u.rng.IntN(2) == 0 {
				other.Release(other.id(), g.Hold)
			}
		}
		time.Sleep([]time.Duration{1, time.Millisecond, time.Second, 5 * time.Second}[u.rng.IntN(4)])
		u.check()
	}
	u.who.without = ""
	u.replicas[0].store.setDown(nil)
	for _, c := range u.clients {
		c.Goodbye()
	}
	time.Sleep(time.Hour)
	u.check()
	for _, w := range u.replicas {
		for _, used := range w.b.Tenants().Usages(u.who.opening().Client.Tenant) {
			if used.Used != 0 {
				u.t.Errorf("%d %s are used in the end", used.Used, used.Subject)
			}
		}
	}
}

// check compares what is counted with what there is.
func (u *users) check() {
	u.t.Helper()
	for _, c := range u.clients {
		c.note()
	}
	synctest.Wait()
	for i, w := range u.replicas {
		calls := int(u.calls[i].Load())
		want := map[string]int{"locks": calls + w.b.Status().Locks, "waiting": calls} // also of sessions that end
		for _, s := range w.b.Sessions("", 100) {
			if s.Client.Identity != u.who.name {
				want["locks"] -= s.Locks
				continue
			}
			want["locks"] += s.Asked
			want["waiting"] += s.Waiters
			want["watches"] += s.Watches
			if s.Detached == 0 {
				want["sessions"]++
			}
		}
		want["locks_per_address"] = u.renewalLoad(w)
		for _, used := range w.b.Tenants().Usages(u.who.opening().Client.Tenant) {
			if used.Used != want[used.Subject] {
				u.t.Fatalf("replica %d: %d %s are counted, and there are %d", i, used.Used, used.Subject, want[used.Subject])
			}
		}
	}
}

// renewalLoad is what it costs to renew what the client's sessions, also those that end, hold and ask for at a replica.
// Their TTL is long.
func (u *users) renewalLoad(w *world) (all int) {
	held := make(map[string]int) // by session
	for _, l := range w.b.Leases("", "", 1000) {
		if l.Holder.Client.Identity == u.who.name {
			weight := lock.Weight(l.Holder.Kind, l.Holder.Permits)
			all += weight
			held[l.Holder.Session] += weight
		}
	}
	for _, s := range w.b.Sessions("", 100) {
		if s.Client.Identity == u.who.name {
			all += s.Weight - held[s.ID]
		}
	}
	return all
}

// note takes what a session was told.
func (c *user) note() {
	for _, e := range c.events() {
		if g, is := e.(session.Granted); is {
			c.holds = append(append(c.holds, g.Hold), g.More...)
		}
	}
}

// act does one thing.
func (u *users) act(all limits.Allowances) {
	if len(u.clients) < mostUsers+1 && u.rng.IntN(3) == 0 {
		at := u.rng.IntN(2)
		if s, err := u.replicas[at].b.Open(u.who.opening()); err == nil {
			c := &user{client: &client{Session: s, t: u.t}, at: at, epoch: 1}
			u.join(c)
		}
	}
	switch u.rng.IntN(12) {
	case 0:
		u.call()
	case 2:
		u.replicas[0].store.setDown([]error{nil, nil, lock.ErrOutcomeUnknown}[u.rng.IntN(3)])
	case 1:
		u.who.without = []string{"", "", "name-1", "name-"}[u.rng.IntN(4)]
		for _, w := range u.replicas {
			w.b.Review(u.rng.IntN(2) == 0, all)
		}
	default:
		if len(u.clients) > 0 {
			u.ask(u.rng.IntN(len(u.clients)))
		}
	}
}

// call is a unary call whose caller may leave.
func (u *users) call() {
	at := u.rng.IntN(2)
	req := request.Once{
		Name: name(u.rng.IntN(3)), Wait: new(time.Minute), Lease: time.Second, Identity: u.who,
		Tenant: u.who.opening().Client.Tenant,
	}
	if u.rng.IntN(2) == 0 {
		req.LeaseID = ownID
	}
	ctx, cancel := context.WithTimeout(u.t.Context(), time.Duration(u.rng.IntN(20))*time.Second)
	u.calls[at].Add(1)
	go func() {
		defer cancel()
		defer u.calls[at].Add(-1)
		req.Kind = lock.Exclusive
		_, _, _ = u.replicas[at].b.AcquireOnce(ctx, req) // however it ends
	}()
}

// ask has a session do one thing.
func (u *users) ask(n int) {
	c := u.clients[n]
	c.note()
	some := name(u.rng.IntN(3))
	switch u.rng.IntN(20) {
	case 0:
		c.Watch(c.id(), some)
	case 1:
		c.Unwatch(c.id(), some)
	case 2:
		c.Goodbye()
		u.leave(n)
	case 3:
		c.End(session.ErrSilent)
		u.leave(n)
	case 4, 5:
		c.Detach(errors.New("its stream broke"))
		u.comeBack(n)
	case 6, 7:
		if len(c.asked) > 0 {
			c.Cancel(c.id(), c.asked[u.rng.IntN(len(c.asked))])
		}
	case 8, 9, 10, 11:
		if len(c.holds) > 0 {
			c.Release(c.id(), c.holds[u.rng.IntN(len(c.holds))])
		}
	case 12:
		if len(c.holds) > 0 {
			c.Extend(c.id(), request.Extend{Hold: c.holds[u.rng.IntN(len(c.holds))], Lease: new(time.Minute)})
		}
	default:
		c.asked = append(c.asked, c.acquire(u.request()))
	}
}

func (u *users) join(c *user) {
	c.stop = c.beats()
	u.t.Cleanup(c.stop)
	u.clients = append(u.clients, c)
}

func (u *users) leave(n int) {
	u.clients[n].stop()
	u.clients = append(u.clients[:n], u.clients[n+1:]...)
}

// request asks for one name or for several, perhaps once more.
func (u *users) request() request.Acquire {
	req := request.Acquire{Name: name(u.rng.IntN(3)), Kind: lock.Exclusive}
	switch u.rng.IntN(6) {
	case 0:
		req.List = request.Items
		req.More = []request.Item{{Name: "name-9", Kind: lock.Exclusive}, {Name: "name-8", Kind: lock.Read}}
	case 1:
		req.Kind = lock.Fair
	case 2:
		req.Name, req.Kind, req.Permits, req.Limit = "permits", lock.Semaphore, 2, 3
	case 3:
		req.Name, req.Kind = "rw", []lock.Kind{lock.Read, lock.Write}[u.rng.IntN(2)]
	}
	if req.Kind != lock.Semaphore { // who has a name may ask once more
		req.Holder = []string{"", "thread", "thread"}[u.rng.IntN(3)]
	}
	if wait := time.Duration(u.rng.IntN(4)) * 3 * time.Second; wait < 9*time.Second {
		req.Wait = &wait
	}
	if u.rng.IntN(3) == 0 {
		req.Lease = new(2 * time.Second)
	}
	return req
}

// comeBack has a session go on, here or at the other replica, with what it had and a hold that it never had.
func (u *users) comeBack(n int) {
	c := u.clients[n]
	u.leave(n)
	if u.rng.IntN(4) == 0 {
		return
	}
	time.Sleep(time.Duration(u.rng.IntN(3)) * 5 * time.Second)
	at, named := u.rng.IntN(2), map[session.Hold]bool{}
	req := c.resumption(c.epoch+1, nil)
	req.OpenRequest, req.LastRequest = u.who.opening(), c.lastID
	never := session.Hold{Name: "never", Kind: lock.Exclusive, Holder: "#1", Fence: 1, AcquiredBy: 1}
	for _, h := range append(c.holds, never) {
		if key := (session.Hold{Name: h.Name, Kind: h.Kind, Holder: h.Holder}); !named[key] {
			named[key] = true
			req.Holds = append(req.Holds, claims(true, h)...)
		}
	}
	s, _, err := u.replicas[at].b.Resume(u.t.Context(), req)
	if err != nil {
		return
	}
	back := &user{client: &client{Session: s, t: u.t, lastID: c.lastID}, at: at, epoch: c.epoch + 1}
	for _, h := range s.Resumed() {
		back.holds = append(back.holds, h.Hold)
	}
	for _, id := range c.asked[max(0, len(c.asked)-2):] {
		again := u.request()
		again.InsteadOf = []uint64{id}
		back.asked = append(back.asked, back.acquire(again))
	}
	u.join(back)
}
