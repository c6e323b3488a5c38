package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// BenchmarkHeld tells what requests cost with few and with many leases, all of which the broker does under its mutex: a
// heartbeat costs the same, a page grows with the logarithm.
func BenchmarkHeld(b *testing.B) {
	for _, leases := range []int{300, 9900} {
		br, s := holding(b, leases)
		s.Heartbeat(0, 1) // the first one looks at all
		last := fmt.Sprintf("name-%08d", leases/2)
		for what, f := range map[string]func(){
			"heartbeat":    func() { s.Heartbeat(0, 1) },
			"page":         func() { br.Leases("", "", 100) },
			"further-back": func() { br.Leases("name", last, 100) },
			"one-name":     func() { br.Leases(last, "", 100) },
		} {
			b.Run(fmt.Sprintf("%s/leases=%d", what, leases), func(b *testing.B) {
				for b.Loop() {
					f()
				}
			})
		}
	}
}

// holding is a session that holds locks.
func holding(b *testing.B, leases int) (*broker.Broker, *broker.Session) {
	b.Helper()
	br := startOn(b, testConfig(), newFree(b)).b
	s, err := br.Open(session.OpenRequest{})
	if err != nil {
		b.Fatal(err)
	}
	for i := range leases {
		s.Acquire(uint64(i+1), request.Acquire{Name: fmt.Sprintf("name-%08d", i), Kind: lock.Exclusive})
	}
	granted(b, s, leases)
	return br, s
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
					if after = l.Key; seen[after] {
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
