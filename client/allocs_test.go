package client_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/trace"
	"google.golang.org/grpc"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/benchtest"
)

const (
	// hotCallers is how many callers of one Client there are.
	hotCallers = 64
	// mostAllocs and mostAllocsAlone are how often a client, with gRPC, may allocate for a pair: with that many
	// callers, and with one.
	mostAllocs      = 13
	mostAllocsAlone = 27
)

func TestAPairAllocatesLittle(t *testing.T) {
	c := dial(t, addr)
	t.Run("many callers", func(t *testing.T) {
		h := newHot(t, c)
		benchtest.Allocs(t, hotCallers, mostAllocs, h.pairs)
	})
	t.Run("one caller", func(t *testing.T) {
		benchtest.Allocs(t, 1, mostAllocsAlone, func() { pair(t, c, "allocs") })
	})
}

// hot are callers that make a pair each time they are woken, each with a name of its own.
type hot struct {
	wake []chan struct{}
	done sync.WaitGroup
}

func newHot(tb testing.TB, c *client.Client) *hot {
	h := &hot{wake: make([]chan struct{}, hotCallers)}
	var ended sync.WaitGroup
	for i := range h.wake {
		wake, name := make(chan struct{}), fmt.Sprint("hot:", i)
		h.wake[i] = wake
		ended.Go(func() {
			for range wake {
				pair(tb, c, name)
				h.done.Done()
			}
		})
	}
	tb.Cleanup(func() {
		for _, wake := range h.wake {
			close(wake)
		}
		ended.Wait()
	})
	h.pairs()
	return h
}

func (h *hot) pairs() {
	h.done.Add(len(h.wake))
	for _, wake := range h.wake {
		wake <- struct{}{}
	}
	h.done.Wait()
}

// gRPC's tracing, shown at /debug/requests, keeps messages and formats them later.
func TestTracingReadsMessagesLater(t *testing.T) {
	grpc.EnableTracing = true
	defer func() { grpc.EnableTracing = false }()
	c := dial(t, addr)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() { pair(t, c, "traced") })
	}
	work.Wait()
	_ = c.Close()
	var page bytes.Buffer
	shown := "/debug/requests?fam=grpc.Sent.lockd.v1.SessionService&b=0&exp=1"
	trace.Render(&page, httptest.NewRequest(http.MethodGet, shown, nil), true)
	if text := page.String(); !strings.Contains(text, "recv: request_id") || strings.Contains(text, "requests:{}") ||
		strings.Contains(text, "recv: </td>") {
		t.Errorf("messages are gone: %s", text)
	}
}
