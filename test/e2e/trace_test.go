package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// spans is a collector of OpenTelemetry.
type spans struct {
	collector.UnimplementedTraceServiceServer
	addr string

	mu   sync.Mutex // guards the fields below
	all  []*otlp.Span
	from map[string]string // attributes of the resource
}

// Export takes spans.
func (s *spans) Export(_ context.Context,
	r *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			s.from[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			s.all = append(s.all, scope.GetSpans()...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func collectSpans(t *testing.T) *spans {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	s := &spans{addr: l.Addr().String(), from: map[string]string{}}
	g := grpc.NewServer()
	collector.RegisterTraceServiceServer(g, s)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-served })
	return s
}

// below waits for the only span of a name below another one.
func (s *spans) below(t *testing.T, parent []byte, name string) (found *otlp.Span) {
	t.Helper()
	harness.Until(t, "a span "+name, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := 0
		for _, span := range s.all {
			if string(span.GetParentSpanId()) == string(parent) && span.GetName() == name {
				found, n = span, n+1
			}
		}
		if n > 1 {
			t.Fatalf("got %d spans %s, want one", n, name)
		}
		return n == 1
	})
	return found
}

// caller is a span of a client, sampled.
func caller(n byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n}, TraceFlags: trace.FlagsSampled,
	})
}

func idOf(sc trace.SpanContext) []byte { span := sc.SpanID(); return span[:] }

// attribute is what a span says of something.
func attribute(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// Requests of a session and unary calls are traced below the spans of their callers, with where the time went.
func TestRequestsAreTracedBelowTheirCallers(t *testing.T) {
	t.Parallel()
	s := collectSpans(t)
	_, d := oneReplica(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+s.addr, "OTEL_BSP_SCHEDULE_DELAY=50", "LOCKD_REPLICA=a",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
	l, err := d.Dial(t).Lock(trace.ContextWithSpanContext(t.Context(), caller(1)), "job")
	harness.Must(t, err)
	wantExemplar(t, d, "lockd_acquire_wait_seconds_bucket", caller(1)) // before another one of its bucket
	waits := make(chan *client.Lock, 1)
	c := d.Dial(t)
	go func() {
		l, _ := c.Lock(trace.ContextWithSpanContext(context.Background(), caller(2)), "job")
		waits <- l
	}()
	harness.Until(t, "it waits", func() bool { return d.Metric("lockd_waiters") == 1 })
	mustUnlock(t, l)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent",
		fmt.Sprintf("00-%s-%s-01", caller(3).TraceID(), caller(3).SpanID()))
	harness.Soon(t, "the lock is handed over", waits)
	if r, err := lockdv1.NewLockServiceClient(d.Connect(t)).Acquire(ctx,
		&lockdv1.AcquireRequest{Name: "job", Lease: durationpb.New(time.Minute)}); err != nil || r.GetNotGranted() == nil {
		t.Fatalf("got %v, %v", r, err)
	}

	granted := s.below(t, idOf(caller(1)), "lockd acquire")
	if attribute(granted, "lockd.name") != "job" || attribute(granted, "lockd.kind") != "exclusive" ||
		attribute(granted, "lockd.result") != "granted" {
		t.Errorf("got %v", granted)
	}
	s.below(t, granted.GetSpanId(), "lockd store")
	handed := s.below(t, idOf(caller(2)), "lockd acquire")
	wait, over := s.below(t, handed.GetSpanId(), "lockd wait"), s.below(t, handed.GetSpanId(), "lockd hand-over")
	if over.GetStartTimeUnixNano() < wait.GetEndTimeUnixNano() {
		t.Errorf("it was handed over, %v, while it waited, %v", over, wait)
	}
	call := s.below(t, idOf(caller(3)), "lockd.v1.LockService/Acquire")
	if r := attribute(s.below(t, call.GetSpanId(), "lockd acquire"), "lockd.result"); !strings.Contains(r, "held") {
		t.Errorf("the unary call was told %q", r)
	}
	if got := s.from["service.name"] + s.from["service.instance.id"] + s.from["deployment.environment.name"]; got !=
		"lockdatest" {
		t.Errorf("the spans are from %v", s.from)
	}
	wantExemplar(t, d, "lockd_handoff_seconds_bucket", caller(2))
}

// wantExemplar looks for a trace in the metrics, as Prometheus reads them.
func wantExemplar(t *testing.T, d *harness.Lockd, metric string, of trace.SpanContext) {
	t.Helper()
	harness.Until(t, "there is an exemplar of "+of.TraceID().String(), func() bool {
		_, text := d.Get("/metrics", "application/openmetrics-text;version=1.0.0")
		return slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			return strings.HasPrefix(line, metric) && strings.Contains(line, `# {trace_id="`+of.TraceID().String()+`"}`)
		})
	})
}

// A collector that is away delays nobody, and is told of.
func TestACollectorThatIsAwayDelaysNobody(t *testing.T) {
	t.Parallel()
	_, d := oneReplica(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_BSP_EXPORT_TIMEOUT=200")
	c := d.Dial(t)
	for range 100 {
		mustUnlock(t, mustLock(t, c, "job"))
	}
	harness.Until(t, "it is told", func() bool { return d.Logged("spans cannot be sent") != nil })
}
