package console

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

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
	if n := look("other", 0); n != 1000 || len(c.all) != keptOfOne+1 {
		t.Errorf("another one was answered %d of 1000 times, and %d answers are kept", n, len(c.all))
	}
}

// knows answers each WhoAmI.
type knows struct{ Calls }

func (knows) Visit(
	ctx context.Context, _ string, _ *tls.ConnectionState, _ []string, _ time.Duration,
) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

func (knows) Invoke(_ context.Context, _ string, _, out any, _ ...grpc.CallOption) error {
	proto.Merge(out.(proto.Message), &lockdv1.WhoAmIResponse{Client: "ops"})
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
