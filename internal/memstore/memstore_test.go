package memstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

func claim(name string, o lock.Owner, ttl time.Duration) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: o, TTL: ttl}
}

func giveBack(name string, o lock.Owner) lock.Return {
	return lock.Return{Name: name, Kind: lock.Exclusive, Owner: o}
}

func TestALeaseEndsToTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		if _, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "o", time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		_, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "other", time.Hour))
		if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.RetryAfter != time.Nanosecond {
			t.Errorf("got %v, want it held for a nanosecond", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "other", time.Hour)); err != nil {
			t.Error(err)
		}
	})
}

func TestFencesGrowWhileTimeStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var last lock.Fence
		for range 100 {
			g, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "o", time.Hour))
			if err != nil || g.Fence <= last {
				t.Fatalf("got %+v, %v, want a fence above %d", g, err, last)
			}
			last = g.Fence
			if _, err := lock.Await(t.Context(), s.StartRelease, giveBack("n", "o")); err != nil {
				t.Fatal(err)
			}
		}
		// Forgotten and without a clock it would begin anew.
		s.Lose()
		if g, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "o", time.Hour)); err != nil || g.Fence <= last {
			t.Errorf("got %+v, %v, want a fence above %d", g, err, last)
		}
	})
}

func TestFreeNamesDoNotPileUp(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for i := range 100_500 {
		name := fmt.Sprint(i)
		g, err := lock.Await(t.Context(), s.StartAcquire, claim(name, "o", time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock.Await(t.Context(), s.StartRelease, giveBack(name, "o")); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		defer func() { // long forgotten, yet nothing was lost
			r := lock.Renewal{Name: name, Kind: lock.Exclusive, Owner: "o", Fence: g.Fence, TTL: time.Hour}
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
				if _, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "next", time.Hour)); err != nil {
					t.Error(err)
				}
			}
		})
		synctest.Wait()
		if _, err := lock.Await(t.Context(), s.StartAcquire, claim("n", "o", time.Hour)); err != nil {
			t.Fatal(err)
		}
		res, err := lock.Await(t.Context(), s.StartRelease, giveBack("n", "o"))
		if err != nil || res.Listeners != 1 || heard != 1 {
			t.Errorf("got %+v, %v, heard %d times, want once", res, err, heard)
		}
	})
}

func TestOneHolderAtATime(t *testing.T) {
	s := memstore.New()
	var wg sync.WaitGroup
	inside := 0 // not atomic: the race detector and the count both tell
	total := 0
	for w := range 8 {
		o := lock.Owner(fmt.Sprint("o", w))
		wg.Go(func() {
			for done := 0; done < 200; {
				if _, err := lock.Await(t.Context(), s.StartAcquire, claim("n", o, time.Hour)); err != nil {
					continue
				}
				inside++
				if inside != 1 {
					t.Errorf("%d holders at a time", inside)
				}
				total++
				done++
				inside--
				if _, err := lock.Await(t.Context(), s.StartRelease, giveBack("n", o)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if total != 1600 {
		t.Errorf("got %d holds, want 1600", total)
	}
}

func BenchmarkPair(b *testing.B) {
	s := memstore.New()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lock.Await(b.Context(), s.StartAcquire, claim("n", "o", time.Hour)); err != nil {
			b.Fatal(err)
		}
		if _, err := lock.Await(b.Context(), s.StartRelease, giveBack("n", "o")); err != nil {
			b.Fatal(err)
		}
	}
}
