package client_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/trace"
	"google.golang.org/grpc"
)

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
