package tracing

import (
	"context"
	"errors"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A request that is not granted is told with its cause, and a wait ends with it.
func TestARefusedRequest(t *testing.T) {
	for cause, failed := range map[error]bool{
		lock.ErrHeld: false, session.ErrTimedOut: false,
		lock.ErrOutcomeUnknown: true,
	} {
		seen := tracetest.NewSpanRecorder()
		p := newProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(seen)))
		s := p.Request(t.Context(), "", "job", lock.Fair)
		s.Waits()
		s.Waits() // woken in vain
		s.Refused(cause)
		spans := seen.Ended()
		if len(spans) != 2 || spans[0].Name() != spanWait || spans[1].Name() != spanRequest {
			t.Fatalf("got %v", spans)
		}
		if got := spans[1].Status().Description != ""; got != failed {
			t.Errorf("%v: failed is %v", cause, got)
		}
		if len(seen.Started()) != len(spans) {
			t.Errorf("%d of %d spans ended", len(spans), len(seen.Started()))
		}
	}
}

func TestOnlyASampledTraceIsNamed(t *testing.T) {
	for sampler, want := range map[sdktrace.Sampler]bool{sdktrace.NeverSample(): false, sdktrace.AlwaysSample(): true} {
		p := newProvider(sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler)))
		if got := p.Request(context.Background(), "", "job", lock.Exclusive).Sampled() != ""; got != want {
			t.Errorf("%s: got %v", sampler.Description(), got)
		}
	}
}

func TestWhatTheVariablesAskFor(t *testing.T) {
	for _, row := range []struct {
		vars map[string]string
		on   bool
		err  error
	}{
		{nil, false, nil},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, true, nil},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, true, nil},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, nil},
		{map[string]string{"OTEL_SERVICE_NAME": "locks"}, false, nil},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, false, nil},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, false, nil},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console"}, false, ErrConfig},
		{
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
			false, ErrConfig,
		},
	} {
		on, err := wanted(func(name string) string { return row.vars[name] })
		if on != row.on || !errors.Is(err, row.err) {
			t.Errorf("%v: got %v, %v", row.vars, on, err)
		}
	}
}
