package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
)

func claim(name string, o lock.Owner, ttl time.Duration) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: o, TTL: ttl}
}

func releaseOf(name string, o lock.Owner) lock.Return {
	return lock.Return{Name: name, Kind: lock.Exclusive, Owner: o}
}

func TestALeaseEndsToTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		granted(t, s, claim("n", "o", time.Hour))
		time.Sleep(time.Hour - time.Nanosecond)
		if held := refused(t, s, claim("n", "other", time.Hour)); held.RetryAfter != time.Nanosecond {
			t.Errorf("got %+v, want it held for a nanosecond", held)
		}
		time.Sleep(time.Nanosecond)
		granted(t, s, claim("n", "other", time.Hour))
	})
}

func TestFencesGrowWhileTimeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var last lock.Fence
		for range 100 {
			f := granted(t, s, claim("n", "o", time.Hour))
			if f <= last {
				t.Errorf("got fence %d after %d", f, last)
			}
			last = f
			released(t, s, releaseOf("n", "o"))
		}
		// Forgotten and without a clock it would begin anew.
		s.Lose()
		if f := granted(t, s, claim("n", "o", time.Hour)); f <= last {
			t.Errorf("got fence %d after %d", f, last)
		}
	})
}

func TestFreeNamesDoNotPileUp(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for i := range 100_500 {
		name := fmt.Sprint(i)
		f := granted(t, s, claim(name, "o", time.Hour))
		released(t, s, releaseOf(name, "o"))
		if i > 0 {
			continue
		}
		defer func() { // long forgotten, yet nothing was lost
			r := lock.Renewal{Name: name, Kind: lock.Exclusive, Owner: "o", Fence: f, TTL: time.Hour}
			s.Renew(t.Context(), []lock.Renewal{r}, func(_ int, err error) {
				if gone, ok := errors.AsType[*lock.GoneError](err); !ok || gone.Reason != lock.LostForced {
					t.Errorf("got %v, want it forced", err)
				}
			})
		}()
	}
	if n := s.Size(); n > 100_001 {
		t.Errorf("got %d names remembered, want no more than 100,000", n)
	}
}

func TestAListenerMayUseTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		heard := 0
		var stop func()
		stop = s.Listen("n", lock.Exclusive, func(n lock.Notice) {
			if n.What == lock.NoticeReleased {
				heard++
				stop()
				s.Listen("n", lock.Exclusive, func(lock.Notice) {})()
				granted(t, s, claim("n", "next", time.Hour))
			}
		})
		synctest.Wait()
		granted(t, s, claim("n", "o", time.Hour))
		res, err := lock.Await(t.Context(), s.StartRelease, releaseOf("n", "o"))
		if err != nil || res.Listeners != 1 || heard != 1 {
			t.Errorf("got %+v, %v, heard %d times, want once", res, err, heard)
		}
	})
}

func BenchmarkPair(b *testing.B) {
	s := memstore.New()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lock.Await(b.Context(), s.StartAcquire, claim("n", "o", time.Hour)); err != nil {
			b.Fatal(err)
		}
		if _, err := lock.Await(b.Context(), s.StartRelease, releaseOf("n", "o")); err != nil {
			b.Fatal(err)
		}
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Rig {
		s := memstore.New()
		return storetest.Rig{Store: s, Hooks: storetest.HooksOf(s)}
	})
}
