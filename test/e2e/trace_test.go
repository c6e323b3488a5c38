package e2e

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
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
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
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
	if err != nil {
		t.Fatal(err)
	}
	s := &spans{addr: l.Addr().String(), from: map[string]string{}}
	g := grpc.NewServer()
	collector.RegisterTraceServiceServer(g, s)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-served })
	return s
}

// below are the spans of a name below another one.
func (s *spans) below(parent []byte, name string) (found []*otlp.Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, span := range s.all {
		if string(span.GetParentSpanId()) == string(parent) && span.GetName() == name {
			found = append(found, span)
		}
	}
	return found
}

// one waits for the only span of a name below another one.
func (s *spans) one(t *testing.T, parent []byte, name string) *otlp.Span {
	t.Helper()
	harness.Until(t, "a span "+name, func() bool { return len(s.below(parent, name)) > 0 })
	found := s.below(parent, name)
	if len(found) != 1 {
		t.Fatalf("got %v, want one", found)
	}
	return found[0]
}

// caller is a span of a client, sampled.
func caller(n byte) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: n}, SpanID: trace.SpanID{7: n},
		TraceFlags: trace.FlagsSampled,
	})
}

func id(sc trace.SpanContext) []byte { span := sc.SpanID(); return span[:] }

// attribute is what a span says of something.
func attribute(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func startTraced(t *testing.T, s *spans, env ...string) *harness.Lockd {
	t.Helper()
	return startLockd(t, redistest.Start(t).Addr, append([]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + s.addr, "OTEL_BSP_SCHEDULE_DELAY=50", "LOCKD_REPLICA=a",
	}, env...)...)
}

func TestARequestOfASessionIsTracedBelowItsCaller(t *testing.T) {
	t.Parallel()
	s := collectSpans(t)
	d := startTraced(t, s, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test")
	first, second := caller(1), caller(2)
	a, b := d.Dial(t), d.Dial(t)
	l, err := a.Lock(trace.ContextWithSpanContext(t.Context(), first), "job")
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan *client.Lock)
	go func() {
		l, err := b.Lock(trace.ContextWithSpanContext(context.Background(), second), "job")
		if err != nil {
			t.Error(err)
		}
		waits <- l
	}()
	harness.Until(t, "it waits", func() bool { return d.Metric("lockd_waiters") == 1 })
	time.Sleep(20 * time.Millisecond) // so that the wait is seen
	mustUnlock(t, l)
	mustUnlock(t, harness.Soon(t, "the lock is handed over", waits))

	of := s.one(t, id(first), "lockd acquire")
	if string(of.GetTraceId()) != string(traceOf(first)) || attribute(of, "lockd.name") != "job" ||
		attribute(of, "lockd.kind") != "exclusive" ||
		attribute(of, "lockd.result") != "granted" {
		t.Errorf("got %v", of)
	}
	asked := s.one(t, of.GetSpanId(), "lockd store")
	if took(asked) <= 0 || took(asked) > took(of) || len(s.below(of.GetSpanId(), "lockd wait")) > 0 {
		t.Errorf("the store was asked for %v of %v", took(asked), took(of))
	}
	of = s.one(t, id(second), "lockd acquire")
	wait, handed := s.one(t, of.GetSpanId(), "lockd wait"), s.one(t, of.GetSpanId(), "lockd hand-over")
	if took(wait) < 20*time.Millisecond || took(wait)+took(handed) > took(of)+time.Millisecond ||
		handed.GetStartTimeUnixNano() < wait.GetEndTimeUnixNano() ||
		string(handed.GetTraceId()) != string(traceOf(second)) {
		t.Errorf("it waited for %v and was handed over in %v, of %v", took(wait), took(handed), took(of))
	}
	if got := fmt.Sprint(s.from["service.name"], s.from["service.instance.id"],
		s.from["deployment.environment.name"]); got != "lockd"+"a"+"test" {
		t.Errorf("the spans are from %v", s.from)
	}
	wantExemplar(t, d, "lockd_acquire_wait_seconds_bucket", first)
	wantExemplar(t, d, "lockd_handoff_seconds_bucket", second)
}

func traceOf(sc trace.SpanContext) []byte { trace := sc.TraceID(); return trace[:] }

func took(s *otlp.Span) time.Duration {
	return time.Duration(s.GetEndTimeUnixNano() - s.GetStartTimeUnixNano())
}

func TestAUnaryCallIsTracedBelowItsCaller(t *testing.T) {
	t.Parallel()
	s := collectSpans(t)
	d := startTraced(t, s)
	c := lockdv1.NewLockServiceClient(d.Connect(t))
	of := caller(3)
	acquire := func(n byte) (*lockdv1.AcquireResponse, error) {
		sc := caller(n)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent",
			fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID()))
		return c.Acquire(ctx, &lockdv1.AcquireRequest{Name: "job", Lease: durationpb.New(time.Minute)})
	}
	if r, err := acquire(3); err != nil || r.GetGranted() == nil {
		t.Fatalf("got %v, %v", r, err)
	}
	if r, err := acquire(4); err != nil || r.GetNotGranted() == nil {
		t.Fatalf("got %v, %v", r, err)
	}
	call := s.one(t, id(of), "lockd.v1.LockService/Acquire")
	request := s.one(t, call.GetSpanId(), "lockd acquire")
	s.one(t, request.GetSpanId(), "lockd store")
	refused := s.one(t, s.one(t, id(caller(4)), "lockd.v1.LockService/Acquire").GetSpanId(), "lockd acquire")
	if r := attribute(refused, "lockd.result"); !strings.Contains(r, "held") {
		t.Errorf("the second one was told %q", r)
	}
	wantExemplar(t, d, "lockd_acquire_wait_seconds_bucket", of)
}

// wantExemplar looks for a trace in the metrics, as Prometheus reads them.
func wantExemplar(t *testing.T, d *harness.Lockd, metric string, of trace.SpanContext) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.Ops+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := hc.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	trace := hex.EncodeToString(traceOf(of))
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, metric) && strings.Contains(line, `# {trace_id="`+trace+`"}`) {
			return
		}
	}
	t.Errorf("no exemplar of %s at %s", trace, metric)
}

func TestWhatIsNoTraceparentIsIgnored(t *testing.T) {
	t.Parallel()
	s := collectSpans(t)
	d := startTraced(t, s)
	c := raw(t, d.Connect(t))
	c.send(openWith(&lockdv1.Open{}))
	c.recv()
	sc := caller(5)
	good := fmt.Sprintf("00-%s-%s-01", sc.TraceID(), sc.SpanID())
	texts := []string{"", "00", "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-01", good +
		strings.Repeat("-", 100), strings.ToUpper("zz") + good[2:], good}
	for i, text := range texts {
		c.send(acquire(uint64(i+1), &lockdv1.Acquire{Name: fmt.Sprint("job ", i), Traceparent: text}))
		for c.recv().GetGranted() == nil {
		}
	}
	s.one(t, id(sc), "lockd acquire") // of the last one alone
	harness.Until(t, "the others have no parent",
		func() bool { return len(s.below(nil, "lockd acquire")) == len(texts)-1 })
}

func TestTracesAreSentOnlyWhereTheVariablesSayHow(t *testing.T) {
	t.Parallel()
	p := proctest.Start(t, lockdBin,
		[]string{
			"OTEL_TRACES_EXPORTER=zipkin", "LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0",
			"LOCKD_ADMIN_LISTEN=127.0.0.1:0",
		})
	if p.Code() != 78 || !strings.Contains(p.Stderr.String(), "OTEL_TRACES_EXPORTER") {
		t.Errorf("got code %d, %s", p.Code(), p.Stderr.String())
	}
	// A collector that is away delays nobody, and is told of once.
	d := startLockd(t, redistest.Start(t).Addr, "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1",
		"OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_BSP_EXPORT_TIMEOUT=200")
	c := d.Dial(t)
	began := time.Now()
	for range 100 {
		mustUnlock(t, mustLock(t, c, "job"))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("100 locks took %v", took)
	}
	harness.Until(t, "it is told", func() bool { return d.Logged("spans cannot be sent") != nil })
}
