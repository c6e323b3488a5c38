package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// A semaphore has as many waits as waiters times holders.
func TestAGraphIsBoundedWhileItIsMade(t *testing.T) {
	var holders []*lockdv1.HolderInfo
	for i := range 1000 {
		holders = append(holders, &lockdv1.HolderInfo{SessionId: fmt.Sprint("holder-", i)})
	}
	var waiters []*lockdv1.WaiterInfo
	for i := range 1000 {
		waiters = append(waiters, &lockdv1.WaiterInfo{Name: "permits", SessionId: fmt.Sprint("waiter-", i)})
	}
	cut := false
	allocs := testing.AllocsPerRun(1, func() {
		f := new(foundBlockers)
		f.draw(parties{}, waiters, map[string][]*lockdv1.HolderInfo{"permits": holders})
		cut = f.Cut
	})
	if allocs > 20*mostWaits || !cut {
		t.Errorf("%v allocations for %d waits, cut %v", allocs, mostWaits, cut)
	}
}

// One client that looks at everything leaves room for others, and what is over takes none.
func TestOneClientLeavesOthersRoom(t *testing.T) {
	c := cache{all: map[string]*kept{}}
	look := func(of string, counts time.Duration) (n int) {
		for i := range 1000 {
			key := fmt.Sprintf("%s\x00%d", of, i)
			if _, err := c.get(context.Background(), key, counts, func() (any, error) { return i, nil }); err == nil {
				n++
			}
		}
		return n
	}
	if n := look("greedy", time.Hour); n != keptOfOne {
		t.Errorf("one client has %d answers", n)
	}
	if n := look("other", 0); n != 1000 || c.len() != keptOfOne {
		t.Errorf("another one was answered %d of 1000 times, and %d answers are kept", n, c.len())
	}
}

// len is how many answers are kept.
func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

// What is over takes no room, though nobody looks any more.
func TestWhatIsOverTakesNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache{all: map[string]*kept{}}
		look := func() (any, error) { return part{html: make([]byte, 1000)}, nil }
		for i := range 100 {
			if _, err := c.get(t.Context(), fmt.Sprintf("one\x00%d", i), fresh, look); err != nil {
				t.Fatal(err)
			}
		}
		for after, want := range []int{100, 0} {
			time.Sleep(time.Duration(after) * fresh)
			synctest.Wait()
			if n := c.len(); n != want {
				t.Errorf("after %d s %d answers are kept, want %d", after, n, want)
			}
		}
	})
}

// Pages may be large. What is kept of them is bounded, in all and of each client; all are answered.
func TestBytesThatAreKeptAreBounded(t *testing.T) {
	c := cache{all: map[string]*kept{}}
	defer c.close()
	page := make([]byte, 1<<20)
	bytes := func(of string) (n int) {
		for i := range 200 {
			key := fmt.Sprintf("%s\x00%d", of, i)
			got, err := c.get(t.Context(), key, time.Hour, func() (any, error) { return part{html: page}, nil })
			if err != nil || len(got.(part).html) != len(page) {
				t.Fatalf("got %v", err)
			}
		}
		_, n = c.ofLocked(of + "\x00")
		return n
	}
	if n := bytes("greedy"); n != bytesEach {
		t.Errorf("%d bytes of one client are kept, want %d", n, bytesEach)
	}
	if n := bytes("other"); n != mostBytes-bytesEach {
		t.Errorf("%d bytes of another one are kept, want %d", n, mostBytes-bytesEach)
	}
	c.close()
	if bytes("late"); c.len() != 0 {
		t.Errorf("%d answers are kept after the end", c.len())
	}
}

// Nothing begins after Close.
func TestNothingIsExaminedAfterClose(t *testing.T) {
	c, err := New(Config{}, knows{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	a := (&shown{Calls: knows{}}).asker()
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { _, _ = c.examine(a) })
	}
	c.Close()
	if _, err := c.examine(a); status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want that it is stopping", err)
	}
	wg.Wait()
}

// knows answers each WhoAmI.
type knows struct{ Calls }

func (knows) Visit(
	ctx context.Context, _ string, _ *tls.ConnectionState, _ []string, _ time.Duration,
) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

func (knows) Invoke(_ context.Context, _ string, _, out any, _ ...grpc.CallOption) error {
	if who, asks := out.(*lockdv1.WhoAmIResponse); asks {
		who.Client = "ops"
	}
	return nil
}

// Strangers whose tokens are still being looked at fill what is kept of who is who, and nobody is shut out.
func TestStrangersShutNobodyOut(t *testing.T) {
	c, err := New(Config{}, knows{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range mostKept {
		if k, _ := c.whos.enter(fmt.Sprintf("wrong-%d\x00", i)); k == nil {
			t.Fatal("there is no room for all of them")
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if a, err := c.identify(r); err != nil || a.client != "ops" {
		t.Errorf("got %v", err)
	}
}
