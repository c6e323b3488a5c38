package broker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	bringBound = 100
	bringEach  = 50 // locks of a session
)

// bringing is a world in which an address may have bringBound locks.
func bringing(t *testing.T, test func(w *world)) {
	cfg := testConfig()
	cfg.Limits.LocksPerAddress = bringBound
	inWorldWith(t, cfg, test)
}

// bringer is a session of an address, with what it holds.
type bringer struct {
	*client
	open  session.OpenRequest
	holds []session.Hold
}

func (w *world) bringer(ttl time.Duration, comesBack bool, n int) *bringer {
	w.t.Helper()
	open := session.OpenRequest{TTL: ttl, ComesBack: comesBack, Client: session.Client{Tenant: "10.0.0.1"}}
	b := &bringer{client: w.openWith(open), open: open}
	for i := range bringEach {
		b.acquire(request.Acquire{Name: fmt.Sprintf("n %d %d", n, i), Wait: new(time.Duration)})
	}
	for _, e := range b.events() {
		g, is := e.(session.Granted)
		if !is {
			w.t.Fatalf("session %d: got %v", n, e)
		}
		b.holds = append(b.holds, g.Hold)
	}
	return b
}

// comesBack has it go on with all that it held.
func (b *bringer) comesBack(w *world, ttl time.Duration) *bringer {
	w.t.Helper()
	req := b.resumption(2, claims(true, b.holds...))
	req.OpenRequest = b.open
	req.TTL = ttl
	s, lost, err := w.b.Resume(w.t.Context(), req)
	if err != nil {
		w.t.Logf("resume: %v", err)
		return nil
	}
	if len(lost) > 0 {
		w.t.Fatalf("%d are lost", len(lost))
	}
	w.t.Cleanup((&client{Session: s, t: w.t}).beats())
	return b
}

// renewalLoad is how much an address is counted to have.
func (w *world) renewalLoad(of lock.Tenant) int {
	for _, u := range w.b.Tenants().Usages(of) {
		if u.Subject == "locks_per_address" {
			return u.Used
		}
	}
	return 0
}

func (w *world) checkBrought() {
	w.t.Helper()
	synctest.Wait()
	// A replica may take over from another one, so what comes may be twice as much.
	if n := w.renewalLoad("10.0.0.1"); n > 2*bringBound {
		w.t.Errorf("an address that may have %d has %d", bringBound, n)
	}
}

// One address takes as much as it may with a long TTL, and goes on with a short one.
func TestNobodyPassesTheBoundOfAnAddressByAShorterTTL(t *testing.T) {
	bringing(t, func(w *world) {
		var all []*bringer
		for n := range bringBound / bringEach {
			all = append(all, w.bringer(time.Minute, true, n))
		}
		for _, b := range all {
			b.comesBack(w, time.Second)
		}
		w.checkBrought()
		var renewed atomic.Int64
		w.store.onCall("Renew", func(c call) error {
			renewed.Add(int64(len(c.arg.([]lock.Renewal))))
			return c.do()
		})
		time.Sleep(10 * time.Second)
		if n := renewed.Load(); n > 2*4*bringBound {
			t.Errorf("%d renewals in 10 s, want at most %d, or twice as many", n, 4*bringBound)
		}
	})
}

// One address takes what it may, breaks its streams, takes as much once more, and comes back with all of it.
func TestNobodyPassesTheBoundOfAnAddressByLeavingLeasesBehind(t *testing.T) {
	bringing(t, func(w *world) {
		var all []*bringer
		for n := range 10 * bringBound / bringEach {
			b := w.bringer(time.Minute, false, n)
			b.Detach(fmt.Errorf("its stream broke"))
			all = append(all, b)
			synctest.Wait()
		}
		for _, b := range all {
			b.comesBack(w, time.Minute)
		}
		w.checkBrought()
	})
}

// One address takes what it may at one replica, again and again, and moves it all to the other one.
func TestNobodyPassesTheBoundOfAnAddressByMovingToAnotherReplica(t *testing.T) {
	bringing(t, func(w *world) {
		there, came := w.replica(), 0
		for ; w.bringer(time.Minute, true, came).comesBack(there, time.Minute) != nil; came++ {
			synctest.Wait()
		}
		if want := 2 * bringBound / bringEach; came != want {
			t.Errorf("%d sessions came, want %d", came, want)
		}
		there.checkBrought()
	})
}
