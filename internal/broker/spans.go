package broker

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockd-io/lockd/internal/lock"
)

// mostTraceparent is how long a traceparent may be. That of today's version has 55 bytes.
const mostTraceparent = 64

// span is the trace of a request; nil if the request is not traced, or its trace has ended. The mutex of its name
// guards it, so what makes and ends spans must not block.
type span struct {
	tracer trace.Tracer
	ctx    context.Context
	all    trace.Span
	waits  trace.Span // nil while it does not wait
}

// errWithdrawn is the cause of the end of requests whose session has ended, or goes on elsewhere.
var errWithdrawn = errors.New("its session has ended here")

// beginSpan has a request traced if there is a Tracer, below the span of its caller: the one in ctx, or the one that a
// W3C traceparent names. An invalid one is ignored.
func (w *waiter) beginSpan(ctx context.Context, traceparent string) {
	t := w.b.cfg.Tracer
	if t == nil {
		return
	}
	if traceparent != "" && len(traceparent) <= mostTraceparent {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	}
	ctx, all := t.Start(ctx, "lockd acquire", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("lockd.name", w.Claim.Name), attribute.Stringer("lockd.kind", w.Claim.Kind)))
	w.span = &span{tracer: t, ctx: ctx, all: all}
}

// beginWait says that the request waits in its queue from now on, until its next part begins.
func (s *span) beginWait() {
	if s != nil && s.waits == nil {
		_, s.waits = s.tracer.Start(s.ctx, "lockd wait")
	}
}

func (s *span) waited(at time.Time) {
	if s.waits != nil {
		s.waits.End(trace.WithTimestamp(at))
		s.waits = nil
	}
}

// asked says that the store was asked for it, from when to when, and with which outcome.
func (s *span) asked(from, to time.Time, err error) { s.part("lockd store", from, to, err) }

// handed says that the holder before released the lock to it, in a store call from when to when.
func (s *span) handed(from, to time.Time) { s.part("lockd hand-over", from, to, nil) }

// part adds a span that is over.
func (s *span) part(name string, from, to time.Time, err error) {
	if s == nil {
		return
	}
	s.waited(from)
	_, part := s.tracer.Start(s.ctx, name, trace.WithTimestamp(from), trace.WithSpanKind(trace.SpanKindClient))
	if err != nil {
		part.SetAttributes(attribute.String("lockd.result", err.Error()))
	}
	part.End(trace.WithTimestamp(to))
}

// spanRefused ends the span of a request that was not granted. It may have ended before. That somebody else has the
// lock is no error.
func (w *waiter) spanRefused(cause error) {
	if w.span == nil {
		return
	}
	if lock.Retriable(cause) {
		w.span.all.SetStatus(codes.Error, cause.Error())
	}
	w.endSpan(cause.Error())
}

func (w *waiter) spanGranted(f lock.Fence) {
	if w.span != nil {
		w.endSpan("granted", attribute.Int64("lockd.fence", int64(f)))
	}
}

func (w *waiter) endSpan(result string, more ...attribute.KeyValue) {
	w.span.waited(time.Now())
	w.span.all.SetAttributes(append(more, attribute.String("lockd.result", result))...)
	w.span.all.End()
	w.span = nil
}

// sampled is the id of the trace if it will be shown to somebody, else empty.
func (s *span) sampled() string {
	if s == nil || !s.all.SpanContext().IsSampled() {
		return ""
	}
	return s.all.SpanContext().TraceID().String()
}

// observeIn adds a duration to a histogram, with the id of its trace unless that is empty.
func observeIn(to prometheus.Observer, d time.Duration, traceID string) {
	if e, ok := to.(prometheus.ExemplarObserver); ok && traceID != "" {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": traceID})
		return
	}
	to.Observe(d.Seconds())
}
