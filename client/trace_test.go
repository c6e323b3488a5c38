package client

import (
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// What is sent is what the library of OpenTelemetry would send.
func TestTheSpanOfTheCaller(t *testing.T) {
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
		sc := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1, 2, 15: 0xfe},
			SpanID:  trace.SpanID{3, 7: 0xff}, TraceFlags: flags,
		})
		ctx := trace.ContextWithSpanContext(t.Context(), sc)
		want := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, want)
		if got := traceparent(ctx); got == "" || got != want["traceparent"] {
			t.Errorf("got %q, want %q", got, want["traceparent"])
		}
	}
	if got := traceparent(t.Context()); got != "" {
		t.Errorf("without a span: %q", got)
	}
	if n := testing.AllocsPerRun(100, func() { _ = traceparent(t.Context()) }); n != 0 {
		t.Errorf("without a span it allocates %v times", n)
	}
}
