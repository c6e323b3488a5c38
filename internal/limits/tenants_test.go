package limits

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/test/harness"
)

var errDenied = errors.New("denied")

func newTenants(l Limits) *Tenants {
	l.Sessions = 100
	return NewTenants(l, func(string, int) error { return errDenied })
}

// A client that comes just before its quotas are known has them then.
func TestAClientIsCountedFromItsFirstMoment(t *testing.T) {
	ts := newTenants(Limits{})
	harness.Must(t, ts.Use("10.0.0.1").Take(UseLocks, 1_000_000)) // an address has no quota
	ts.Allow(Allowances{"client first": {}})
	use := ts.Use("client second")
	harness.Must(t, use.Take(UseLocks, 1))
	ts.Allow(Allowances{"client first": {}, "client second": {Locks: 1}})
	if use.Take(UseLocks, 1) == nil {
		t.Error("its session has no quota")
	}
}

// Addresses that have left with all that they had are forgotten, and no others.
func TestWhatAddressesUseFillsNoMemory(t *testing.T) {
	ts := newTenants(Limits{LocksPerAddress: 2})
	held := ts.Use("held")
	held.Add(UseRenewalLoad, 2)
	ts.Allow(Allowances{"client": {Locks: 1}})
	for i := range 100 * fewTenants {
		use := ts.Use(lock.Tenant(fmt.Sprint(i)))
		harness.Must(t, use.Take(UseRenewalLoad, 2))
		use.Give(UseRenewalLoad, 2)
	}
	if n := len(ts.uses.all); n > 3*fewTenants {
		t.Errorf("%d are kept", n)
	}
	if ts.Use("held") != held || held.Take(UseRenewalLoad, 1) == nil || ts.Use("client").Take(UseLocks, 2) == nil {
		t.Error("one that has something, or a quota, was forgotten")
	}
}

// Whoever makes lockd work without using the store is served no faster than it pays, however many streams it has.
// Others do not wait for that.
func TestATenantThatOwesIsServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTenants(Limits{})
		neighbour, err := ts.Arrive("neighbour")
		harness.Must(t, err)
		defer neighbour.Leave()
		const turns, turn = 10_000, 64 * Refusal
		done := make(chan struct{})
		begun := time.Now()
		for range 100 {
			go func() {
				for range turns / 100 {
					time.Sleep(ts.Spend("attacker", turn))
				}
				done <- struct{}{}
			}()
		}
		for range 20 {
			time.Sleep(100 * time.Millisecond)
			if wait := ts.Spend("neighbour", turn); wait > 0 {
				t.Fatalf("a neighbour waits for %v", wait)
			}
		}
		for range 100 {
			<-done
		}
		share := float64(runtime.GOMAXPROCS(0)) / workPart
		least := time.Duration(float64(turns*turn-workBurst) / share)
		if took := time.Since(begun); took < least*9/10 || took > least*11/10 {
			t.Errorf("%d turns took %v, want about %v", turns, took, least)
		}
	})
}

// A session is not made to wait for long, so that it lives. Very many of one tenant are, so that they do not take all.
func TestManySessionsOfATenantDoNotTakeAll(t *testing.T) {
	const ttl, turns = time.Second, 64 * Refusal
	for sessions, atMost := range map[int]time.Duration{50: ttl / 4, 3000: mostDebt} {
		synctest.Test(t, func(t *testing.T) {
			ts := newTenants(Limits{})
			ts.limits.Sessions = sessions + 1
			if _, err := ts.Arrive("neighbour"); err != nil {
				t.Fatal(err)
			}
			const lasts = 30 * time.Second
			end := time.Now().Add(lasts)
			spent, longest := make(chan time.Duration, sessions), make(chan time.Duration, sessions)
			for range sessions {
				if _, err := ts.Arrive("attacker"); err != nil {
					t.Fatal(err)
				}
				go func() {
					var all, most time.Duration
					for time.Now().Before(end) {
						wait := ts.SpendFor("attacker", turns, ttl/4)
						all, most = all+turns, max(most, wait)
						time.Sleep(max(wait, time.Millisecond))
					}
					spent <- all
					longest <- most
				}()
			}
			var all, most time.Duration
			for range sessions {
				all, most = all+<-spent, max(most, <-longest)
			}
			if part := float64(all) / float64(lasts) / float64(runtime.GOMAXPROCS(0)); part > 0.75 {
				t.Errorf("%d sessions took %.2f of the processors", sessions, part)
			}
			if most > atMost {
				t.Errorf("one of %d sessions waited for %v", sessions, most)
			}
		})
	}
}

// Addresses that come and go fill no memory.
func TestWhoHasLeftIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTenants(Limits{})
		for i := range 20 * fewTenants {
			ts.Spend(lock.Tenant(fmt.Sprint(i)), Unary)
			time.Sleep(2 * lately / fewTenants)
		}
		if n := len(ts.accounts.all); n > 4*fewTenants {
			t.Errorf("%d accounts are left", n)
		}
	})
}

// A tenant that is alone does not wait for anybody, and one that has left is nobody.
func TestATenantThatIsAloneWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTenants(Limits{})
		spend := func() time.Duration { return ts.Spend("proxy", 10*workBurst) }
		if wait := spend(); wait > 0 {
			t.Errorf("alone: it waits for %v", wait)
		}
		ts.Spend("other", Unary)
		if spend() == 0 {
			t.Error("beside another one that just called: it does not wait")
		}
		time.Sleep(lately + mostDebt)
		if wait := spend(); wait > 0 {
			t.Errorf("alone again: it waits for %v", wait)
		}
		slot, err := ts.Arrive("other")
		harness.Must(t, err)
		time.Sleep(2 * lately)
		if spend() == 0 {
			t.Error("beside a session that says nothing: it does not wait")
		}
		slot.Leave()
		time.Sleep(lately + mostDebt)
		if wait := spend(); wait > 0 {
			t.Errorf("when the session has ended: it waits for %v", wait)
		}
		if len(ts.accounts.all) != 1 {
			t.Errorf("%d accounts are left", len(ts.accounts.all))
		}
	})
}

// A call that would wait for too long is refused, and the refusal adds nothing to what its tenant owes.
func TestWhoOwesMuchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newTenants(Limits{})
		ts.Spend("other", Sign)
		ts.Spend("attacker", time.Hour)
		begun := time.Now()
		for range 1000 {
			if err := ts.Work(t.Context(), "attacker", Unary, time.Second); !errors.Is(err, errDenied) {
				t.Fatalf("got %v", err)
			}
		}
		if time.Since(begun) > 0 {
			t.Error("the refused waited")
		}
		time.Sleep(mostDebt - time.Second/2)
		if err := ts.Work(t.Context(), "attacker", Unary, time.Second); err != nil || time.Since(begun) < mostDebt {
			t.Errorf("got %v after %v, want that it is let in when the debt is paid", err, time.Since(begun))
		}
	})
}

func TestATenantsNewNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 5000
		ts := newTenants(Limits{NamesPerAddress: most})
		use := func(tenant lock.Tenant, from int) (n int) { // until it is refused
			for ts.Name(tenant, fmt.Sprint("name ", from+n)) == nil && n < 3*most {
				n++
			}
			return n
		}
		if n := use("attacker", 0); n < most || n > most*11/10 {
			t.Errorf("%d new names were let in, want about %d", n, most)
		}
		if err := ts.Name("attacker", "name 4000"); err != nil {
			t.Errorf("a name that it uses: got %v", err)
		}
		if err := ts.Name("neighbour", "a"); err != nil {
			t.Errorf("a neighbour: got %v", err)
		}
		time.Sleep(namesFor)
		if n := use("attacker", 0); n < most*2 {
			t.Errorf("in the next hour it used %d of %d known and %d new names", n, most, most)
		}
		time.Sleep(2 * namesFor)
		if err := ts.Name("neighbour", "a"); err != nil || len(ts.names.tenants) != 1 {
			t.Errorf("got %v; %d tenants are remembered, want 1", err, len(ts.names.tenants))
		}
	})
}

// However many tenants come, what is remembered of their names is bounded, and none is refused for the others.
func TestTenantsWithNamesFillNoMemory(t *testing.T) {
	ts := newTenants(Limits{NamesPerAddress: 1})
	for i := range 2 * mostNamed {
		if err := ts.Name(lock.Tenant(fmt.Sprint(i)), "a"); err != nil {
			t.Fatalf("tenant %d: %v", i, err)
		}
	}
	if n := len(ts.names.tenants); n > mostNamed {
		t.Errorf("names of %d tenants are remembered", n)
	}
}

// However many names are used, what is remembered of them is bounded.
func TestNamesFillNoMemory(t *testing.T) {
	bits := 0
	var f filters
	const golden = 0x9e3779b97f4a7c15
	last := uint64(3_000_000)
	for h := range last + 1 {
		bits += f.add(h*golden, mostBits/64-bits)
	}
	if bits > mostBits/64 || bits != f.bits() {
		t.Errorf("%d bits are used, counted as %d, want at most %d", f.bits(), bits, mostBits/64)
	}
	if !f.has(0) || !f.has(last*golden) {
		t.Error("a name is not known")
	}
}

// BenchmarkName is on the way of each acquire.
func BenchmarkName(b *testing.B) {
	ts := newTenants(Limits{NamesPerAddress: 1_000_000})
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = fmt.Sprint("orders:", i)
	}
	for i := 0; b.Loop(); i++ {
		_ = ts.Name("t", names[i%len(names)])
	}
}
