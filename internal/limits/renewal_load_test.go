package limits

import (
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/test/harness"
)

// A request for more than is left does not keep others of the same tenant from what is left.
func TestWhoIsRefusedTakesNothingMeanwhile(t *testing.T) {
	use := newTenants(Limits{LocksPerAddress: 10}).Use("10.0.0.1")
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					if use.Take(UseRenewalLoad, 11) == nil {
						t.Error("more was granted than there is")
						return
					}
				}
			}
		})
	}
	refused := 0
	const tries = 200_000
	for range tries {
		if use.Take(UseRenewalLoad, 1) != nil {
			refused++
			continue
		}
		use.Give(UseRenewalLoad, 1)
	}
	close(over)
	all.Wait()
	if refused > 0 {
		t.Errorf("1 of 10 was refused %d times of %d", refused, tries)
	}
}

// A client whose file says that it may have more locks than an address may have them.
func TestAQuotaOfLocksHoldsInPlaceOfThatOfAnAddress(t *testing.T) {
	ts := newTenants(Limits{LocksPerAddress: 10, SessionsPerAddress: 10})
	ts.Allow(Allowances{"client a": {Locks: 50, Sessions: 50}})
	for i := range 50 {
		if _, err := ts.Arrive("client a"); err != nil {
			t.Fatalf("session %d: %v", i, err) // its quota of sessions does
		}
	}
	use := ts.Use("client a")
	for i := range 50 {
		harness.Must(t, use.Take(UseLocks, 1))
		if err := use.Take(UseRenewalLoad, 1); err != nil {
			t.Fatalf("lock %d: %v", i, err)
		}
	}
}

// Renewal loads at the edges.
func TestWhatALockOfAShortSessionCountsAs(t *testing.T) {
	for ttl, want := range map[time.Duration]int{
		0: int(renewalLoadTTL), time.Millisecond: 10_000, time.Second: 10, 9999 * time.Millisecond: 2, renewalLoadTTL: 1,
		renewalLoadTTL + 1: 1, time.Hour: 1, 5 * time.Second: 2, 5*time.Second - 1: 3,
	} {
		if got := RenewalLoad(ttl); got != want {
			t.Errorf("%v: got %d, want %d", ttl, got, want)
		}
	}
}

// BenchmarkUse counts a lock and its release as session.Session does: all of one address, and each of another one.
func BenchmarkUse(b *testing.B) {
	for _, row := range []struct {
		name string
		of   func(i int) lock.Tenant
	}{
		{"one", func(int) lock.Tenant { return "10.0.0.1" }},
		{"each", func(i int) lock.Tenant { return lock.Tenant(rune('a' + i)) }},
	} {
		b.Run(row.name, func(b *testing.B) {
			ts := newTenants(Limits{LocksPerAddress: 100_000})
			var mu sync.Mutex
			n := 0
			b.RunParallel(func(pb *testing.PB) {
				mu.Lock()
				n++
				use := ts.Use(row.of(n))
				mu.Unlock()
				for pb.Next() {
					_ = use.Take(UseLocks, 1) // Wait
					_ = use.Take(UseWaiting, 1)
					_ = use.Take(UseRenewalLoad, 1)
					use.Give(UseWaiting, 1)     // Take
					use.Give(UseRenewalLoad, 1) // Dismiss
					use.Give(UseLocks, 1)
				}
			})
		})
	}
}
