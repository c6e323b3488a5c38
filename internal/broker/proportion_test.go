package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/benchtest"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// TestWorkIsInProportionToWhatIsAskedAndNotToWhatIsHeld compares what requests cost with few and with many leases, all
// of which the broker does under its mutex. The machine may be busy with something else during one of the two, but not
// each time.
func TestWorkIsInProportionToWhatIsAskedAndNotToWhatIsHeld(t *testing.T) {
	const few, many, most, rounds = 300, 9900, 8, 5 // a list of pages grows with the logarithm
	for round := 1; ; round++ {
		var small, large map[string]time.Duration
		holding(t, few, func(b *broker.Broker, s *broker.Session) { small = costs(b, s, few) })
		holding(t, many, func(b *broker.Broker, s *broker.Session) { large = costs(b, s, many) })
		var worst string
		var ratio float64
		for what, before := range small {
			times := float64(large[what]) / float64(before)
			t.Logf("%s: %v with %d leases, %v with %d: %.1f times", what, before, few, large[what], many, times)
			if times > ratio {
				worst, ratio = what, times
			}
		}
		if ratio <= most {
			return
		}
		if round == rounds {
			t.Fatalf("%s takes %.1f times as long with %d times the leases, want %d at most", worst, ratio, many/few, most)
		}
	}
}

func costs(b *broker.Broker, s *broker.Session, leases int) map[string]time.Duration {
	s.Heartbeat(0, 1) // the first one looks at all
	last := fmt.Sprintf("name-%08d", leases/2)
	return map[string]time.Duration{
		"a heartbeat": benchtest.Quickest(func() {
			for range 100 {
				s.Heartbeat(0, 1)
			}
		}),
		"a page of leases":    benchtest.Quickest(func() { b.Leases("", "", 100) }),
		"a page further back": benchtest.Quickest(func() { b.Leases("name", last, 100) }),
		"a page of one name":  benchtest.Quickest(func() { b.Leases(last, "", 100) }),
	}
}

// holding runs a test with a session that holds locks.
func holding(t *testing.T, leases int, test func(b *broker.Broker, s *broker.Session)) {
	t.Helper()
	store := newGenerous(t)
	reg := prometheus.NewRegistry()
	dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
	b := broker.New(testConfig(), store, dog, zap.NewNop(), reg)
	s, err := b.Open(broker.OpenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range leases {
		s.Acquire(uint64(i+1), request.Acquire{Name: fmt.Sprintf("name-%08d", i), Kind: lock.Exclusive})
	}
	granted(t, s, leases)
	test(b, s)
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
	dog.Close()
}

// TestListsArePagedWithoutGapsAndRepeats reads all leases and sessions in small pages.
func TestListsArePagedWithoutGapsAndRepeats(t *testing.T) {
	inWorld(t, func(w *world) {
		want := 0
		for range 7 {
			c := w.open()
			for i := range 5 {
				c.acquire(request.Acquire{Name: "shared", Kind: lock.Read})
				c.acquire(request.Acquire{Name: fmt.Sprint(c.ID(), i), Kind: lock.Exclusive})
				want += 2
			}
		}
		time.Sleep(time.Second)
		for size := range 12 {
			seen, after := map[string]bool{}, ""
			for page := w.b.Leases("", "", size+1); len(page) > 0; page = w.b.Leases("", after, size+1) {
				for _, l := range page {
					if after = l.Key(); seen[after] {
						t.Fatalf("%q comes twice", after)
					}
					seen[after] = true
				}
			}
			if len(seen) != want {
				t.Errorf("pages of %d: got %d leases, want %d", size+1, len(seen), want)
			}
			sessions, last := 0, ""
			for page := w.b.Sessions("", size+1); len(page) > 0; page = w.b.Sessions(last, size+1) {
				sessions, last = sessions+len(page), page[len(page)-1].ID
			}
			if sessions != 7 {
				t.Errorf("pages of %d: got %d sessions, want 7", size+1, sessions)
			}
		}
		if got := len(w.b.Leases("shared", "", 1000)); got != 35 {
			t.Errorf("got %d leases of a prefix, want 35", got)
		}
	})
}
