package broker

import (
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

func traced(t *testing.T, o ...sdktrace.TracerProviderOption) *waiter {
	w := &waiter{b: &Broker{cfg: Config{Tracer: sdktrace.NewTracerProvider(o...).Tracer("")}}}
	w.beginSpan(t.Context(), "")
	return w
}

// A request that is not granted is told with its cause, and a wait ends with it. Only a sampled trace is named.
func TestARefusedRequest(t *testing.T) {
	if id := traced(t, sdktrace.WithSampler(sdktrace.NeverSample())).span.sampled(); id != "" {
		t.Errorf("a trace that is not sampled is named %s", id)
	}
	for cause, failed := range map[error]bool{
		lock.ErrHeld: false, session.ErrTimedOut: false, lock.ErrOutcomeUnknown: true,
	} {
		seen := tracetest.NewSpanRecorder()
		w := traced(t, sdktrace.WithSpanProcessor(seen))
		id := w.span.sampled()
		w.span.beginWait()
		w.span.beginWait() // woken in vain
		w.spanRefused(cause)
		w.spanRefused(cause) // it has ended
		spans := seen.Ended()
		if len(spans) != 2 || spans[0].Name() != "lockd wait" || spans[1].Name() != "lockd acquire" {
			t.Fatalf("got %v", spans)
		}
		if got := spans[1].Status().Description != ""; got != failed || id == "" {
			t.Errorf("%v: failed is %v, the trace is named %q", cause, got, id)
		}
		if len(seen.Started()) != len(spans) {
			t.Errorf("%d of %d spans ended", len(spans), len(seen.Started()))
		}
	}
}
