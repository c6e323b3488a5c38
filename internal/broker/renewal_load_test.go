package broker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// loaded are sessions of addresses and of a client of the clients file, which do random things at two replicas. Each
// tenant is counted by what its locks cost to renew.
type loaded struct {
	t        testing.TB
	rng      *rand.Rand
	who      *someone
	replicas [2]*world
	sessions []*loadedSession
	ttls     map[string]time.Duration // of each session, now
	refused  int                      // because of the bound
}

// loadedSession is one of these sessions, as its client knows it.
type loadedSession struct {
	*client
	open  session.OpenRequest
	at    int // the replica
	epoch uint64
	stop  func() // of its heartbeats
	holds map[session.Hold]uint32
	asked []uint64
}

const loadBound = 40

// The renewal load that a tenant is counted to have at a replica is what its sessions hold and ask for there, whatever
// they do and however they end, and nothing in the end.
func TestTheRenewalLoadOfTenantsIsCounted(t *testing.T) {
	for _, seed := range seeds(1, 2, 3, 4, 5, 6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cfg := testConfig()
			cfg.Limits.LocksPerAddress = loadBound
			inWorldWith(t, cfg, func(w *world) {
				b := &loaded{
					t: w.t, rng: rand.New(rand.NewPCG(seed, 7)), who: &someone{name: "billing"},
					replicas: [2]*world{w, w.replica()}, ttls: make(map[string]time.Duration),
				}
				b.run()
			})
		})
	}
}

func (b *loaded) run() {
	for range 1500 {
		b.act()
		if b.rng.IntN(2) == 0 {
			pauses := []time.Duration{1, time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second}
			time.Sleep(pauses[b.rng.IntN(len(pauses))])
		}
		b.check()
	}
	if b.refused == 0 {
		b.t.Error("nobody was refused: the bound was not met")
	}
	b.who.without = ""
	b.replicas[0].store.setDown(nil)
	for _, w := range b.replicas {
		w.b.Undrain()
	}
	for _, s := range b.sessions {
		s.stop()
		s.Goodbye()
	}
	time.Sleep(time.Hour)
	b.check()
	for i, w := range b.replicas {
		for _, tenant := range b.tenants() {
			for _, used := range w.b.Tenants().Usages(tenant) {
				if used.Used != 0 {
					b.t.Errorf("replica %d: %s has %d %s in the end", i, tenant, used.Used, used.Subject)
				}
			}
		}
	}
}

func (b *loaded) tenants() []lock.Tenant {
	return []lock.Tenant{"10.0.0.1", "10.0.0.2", b.who.opening().Client.Tenant}
}

// opening is a request to open a session of a random tenant.
func (b *loaded) opening() session.OpenRequest {
	open := session.OpenRequest{Client: session.Client{Tenant: b.tenants()[b.rng.IntN(2)]}}
	if b.rng.IntN(3) == 0 {
		open = b.who.opening()
	}
	open.ComesBack, open.ReleaseOnEnd = b.rng.IntN(4) > 0, b.rng.IntN(4) == 0
	open.TTL = b.ttl()
	return open
}

func (b *loaded) ttl() time.Duration {
	all := []time.Duration{time.Second, 1500 * time.Millisecond, 3 * time.Second, 10 * time.Second, time.Minute}
	return all[b.rng.IntN(len(all))]
}

// check compares what is counted with what there is.
func (b *loaded) check() {
	b.t.Helper()
	for _, s := range b.sessions {
		b.note(s)
	}
	synctest.Wait()
	for i, w := range b.replicas {
		want, held := map[lock.Tenant]int{}, map[string]int{}
		for _, l := range w.b.Leases("", "", 1000) {
			weight := lock.Weight(l.Holder.Kind, l.Holder.Permits)
			want[l.Holder.Client.Tenant] += weight * limits.RenewalLoad(b.ttls[l.Holder.Session])
			held[l.Holder.Session] += weight
		}
		for _, s := range w.b.Sessions("", 1000) {
			want[s.Client.Tenant] += (s.Weight - held[s.ID]) * limits.RenewalLoad(b.ttls[s.ID])
		}
		for _, tenant := range b.tenants() {
			for _, used := range w.b.Tenants().Usages(tenant) {
				if used.Subject == "locks_per_address" && used.Used != want[tenant] {
					b.t.Fatalf("replica %d: %s is counted with %d, and has %d", i, tenant, used.Used, want[tenant])
				}
				if used.Used < 0 {
					b.t.Fatalf("replica %d: %s has %d %s", i, tenant, used.Used, used.Subject)
				}
			}
		}
	}
}

// note takes what a session was told.
func (b *loaded) note(s *loadedSession) {
	for _, e := range s.events() {
		switch e := e.(type) {
		case session.Granted:
			for _, h := range append([]session.Hold{e.Hold}, e.More...) {
				s.holds[h] = max(s.holds[h], 1)
			}
		case session.Lost:
			delete(s.holds, e.Hold)
		case session.Failed:
			if q, is := errors.AsType[*session.QuotaError](e.Err); is && q.Subject == "locks_per_address" {
				b.refused++
			}
		}
	}
}

// act does one thing.
func (b *loaded) act() {
	if len(b.sessions) < 8 && b.rng.IntN(3) == 0 {
		open, at := b.opening(), b.rng.IntN(2)
		if s, err := b.replicas[at].b.Open(open); err == nil {
			b.join(&loadedSession{client: &client{Session: s, t: b.t}, open: open, at: at, epoch: 1})
		}
	}
	w := b.replicas[b.rng.IntN(2)]
	switch b.rng.IntN(40) {
	case 0:
		down := []error{nil, nil, lock.ErrOutcomeUnknown, lock.ErrUnavailable}
		b.replicas[0].store.setDown(down[b.rng.IntN(len(down))])
	case 1:
		b.who.without = []string{"", "", "name-1", "name-"}[b.rng.IntN(4)]
		all := limits.Allowances{b.who.opening().Client.Tenant: {Locks: 20, Sessions: 5}}
		for _, w := range b.replicas {
			w.b.Review(b.rng.IntN(2) == 0, all)
		}
	case 2:
		_, _ = w.b.ForceRelease(b.t.Context(), name(b.rng.IntN(6)), lock.Exclusive)
	case 3:
		_, _ = w.b.ForceRelease(b.t.Context(), "rw", []lock.Kind{lock.Read, lock.Write}[b.rng.IntN(2)])
	case 4:
		if b.rng.IntN(8) == 0 {
			b.replicas[0].lose()
		}
	case 5:
		w.b.Drain(time.Second)
	case 6, 7:
		w.b.Undrain()
	default:
		if len(b.sessions) > 0 {
			b.ask(b.rng.IntN(len(b.sessions)))
		}
	}
}

// ask has a session do one thing.
func (b *loaded) ask(n int) {
	s := b.sessions[n]
	b.note(s)
	switch b.rng.IntN(40) {
	case 0:
		s.Goodbye()
		b.leave(n)
	case 1:
		s.End(session.ErrSilent)
		b.leave(n)
	case 2: // it falls silent
		b.leave(n)
	case 3, 4, 5:
		s.Detach(errors.New("its stream broke"))
		b.comeBack(n)
	case 6: // it comes back while its stream is there
		b.comeBack(n)
	case 7, 8, 9:
		if len(s.asked) > 0 {
			s.Cancel(s.id(), s.asked[b.rng.IntN(len(s.asked))])
		}
	case 10, 11, 12, 13, 14, 15, 16:
		for h, had := range s.holds {
			keep := uint32(0)
			if h.Kind == lock.Semaphore && b.rng.IntN(2) == 0 {
				keep = uint32(b.rng.IntN(4))
			}
			if keep == 0 && had == 1 {
				delete(s.holds, h)
			}
			s.ReleasePermits(s.id(), request.Release{Hold: h, Keep: keep})
			break
		}
	case 17, 18:
		for h := range s.holds {
			lease := []*time.Duration{nil, new(time.Minute), new(time.Second)}[b.rng.IntN(3)]
			s.Extend(s.id(), request.Extend{Hold: h, Lease: lease, MayShorten: b.rng.IntN(2) == 0})
			break
		}
	default:
		s.asked = append(s.asked, s.acquire(b.request()))
	}
}

func (b *loaded) join(s *loadedSession) {
	if s.holds == nil {
		s.holds = make(map[session.Hold]uint32)
	}
	b.ttls[s.ID()] = s.TTL()
	s.stop = s.beats()
	b.t.Cleanup(s.stop)
	b.sessions = append(b.sessions, s)
}

func (b *loaded) leave(n int) {
	b.sessions[n].stop()
	b.sessions = append(b.sessions[:n], b.sessions[n+1:]...)
}

// request asks for one name or for several, perhaps for one that is a lock of another kind.
func (b *loaded) request() request.Acquire {
	req := request.Acquire{Name: name(b.rng.IntN(6)), Kind: lock.Exclusive}
	switch b.rng.IntN(8) {
	case 0:
		req.List = request.Items
		req.More = []request.Item{
			{Name: "name-9", Kind: lock.Exclusive},
			{Name: "rw", Kind: lock.Read},
			{Name: "permits", Kind: lock.Semaphore, Permits: 2, Limit: 30},
		}
	case 1:
		req.Kind = lock.Fair
	case 2:
		req.Name, req.Kind, req.Permits, req.Limit = "permits", lock.Semaphore, 1+b.rng.Uint32N(12), 30
	case 3:
		req.Name, req.Kind = "rw", []lock.Kind{lock.Read, lock.Write}[b.rng.IntN(2)]
	case 4: // of another kind than it is
		req.Kind = []lock.Kind{lock.Read, lock.Write, lock.Fair}[b.rng.IntN(3)]
	case 5:
		req.Name = fmt.Sprint("own ", b.rng.IntN(1000))
	}
	if req.Kind != lock.Semaphore && len(req.More) == 0 {
		req.Holder = []string{"", "thread", "thread"}[b.rng.IntN(3)]
	}
	if wait := time.Duration(b.rng.IntN(4)) * 3 * time.Second; wait < 9*time.Second {
		req.Wait = &wait
	}
	switch b.rng.IntN(4) {
	case 0:
		req.Lease = new(2 * time.Second)
	case 1:
		req.MaxHold = new(3 * time.Second)
	}
	return req
}

// comeBack has a session go on, here or at the other replica, perhaps with another TTL, with what it had and a hold
// that it never had.
func (b *loaded) comeBack(n int) {
	s := b.sessions[n]
	b.leave(n)
	if b.rng.IntN(4) == 0 {
		return
	}
	time.Sleep(time.Duration(b.rng.IntN(3)) * 500 * time.Millisecond)
	b.note(s)
	at, req := b.rng.IntN(2), s.resumption(s.epoch+1, nil)
	req.OpenRequest, req.LastRequest = s.open, s.lastID
	if req.TTL = s.open.TTL; b.rng.IntN(3) == 0 {
		req.TTL = b.ttl()
	}
	never := session.Hold{Name: "never", Kind: lock.Exclusive, Holder: "#1", Fence: 1, AcquiredBy: 1}
	named := map[session.Hold]bool{}
	for _, h := range append(holdsOf(s.holds), never) {
		if key := (session.Hold{Name: h.Name, Kind: h.Kind, Holder: h.Holder}); !named[key] && h.AcquiredBy <= s.lastID {
			named[key] = true
			held := claims(b.rng.IntN(4) > 0, h)[0]
			if h.Kind == lock.Semaphore {
				held.Permits = b.rng.Uint32N(4)
			}
			req.Holds = append(req.Holds, held)
		}
	}
	before := b.ttls[s.ID()]
	b.ttls[s.ID()] = req.TTL
	got, _, err := b.replicas[at].b.Resume(b.t.Context(), req)
	if err != nil {
		b.ttls[s.ID()] = before
		return
	}
	back := &loadedSession{
		client: &client{Session: got, t: b.t, lastID: s.lastID}, open: req.OpenRequest, at: at, epoch: s.epoch + 1,
		holds: make(map[session.Hold]uint32),
	}
	for _, h := range got.Resumed() {
		back.holds[h.Hold] = 1
	}
	for _, id := range s.asked[max(0, len(s.asked)-2):] {
		again := b.request()
		again.InsteadOf = []uint64{id}
		back.asked = append(back.asked, back.acquire(again))
	}
	b.join(back)
}

func holdsOf(all map[session.Hold]uint32) (holds []session.Hold) {
	for h := range all {
		holds = append(holds, h)
	}
	return holds
}
