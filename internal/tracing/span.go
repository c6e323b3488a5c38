package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// The names of spans.
const (
	spanRequest = "lockd acquire"
	spanWait    = "lockd wait"
	spanStore   = "lockd store"
	spanHanded  = "lockd hand-over"
)

// mostTraceparent is how long a traceparent may be. That of today's version has 55 bytes.
const mostTraceparent = 64

// span is a request. The mutex of its name, which its caller holds, guards it.
type span struct {
	p     *Provider
	ctx   context.Context
	all   trace.Span
	waits trace.Span // nil while it does not wait
}

var (
	_ broker.Tracer = (*Provider)(nil)
	_ broker.Span   = (*span)(nil)
)

// Request implements broker.Tracer.
func (p *Provider) Request(ctx context.Context, traceparent, name string, kind lock.Kind) broker.Span {
	if traceparent != "" && len(traceparent) <= mostTraceparent {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
	}
	ctx, all := p.tracer.Start(ctx, spanRequest, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("lockd.name", name), attribute.Stringer("lockd.kind", kind)))
	return &span{p: p, ctx: ctx, all: all}
}

// Waits implements broker.Span.
func (s *span) Waits() {
	if s.waits == nil {
		_, s.waits = s.p.tracer.Start(s.ctx, spanWait)
	}
}

// waited ends a wait at some time.
func (s *span) waited(at time.Time) {
	if s.waits != nil {
		s.waits.End(trace.WithTimestamp(at))
		s.waits = nil
	}
}

// Asked implements broker.Span.
func (s *span) Asked(from, to time.Time, err error) {
	s.waited(from)
	s.part(spanStore, from, to, err)
}

// Handed implements broker.Span.
func (s *span) Handed(from, to time.Time) {
	s.waited(from)
	s.part(spanHanded, from, to, nil)
}

// part is a span that is over.
func (s *span) part(name string, from, to time.Time, err error) {
	_, part := s.p.tracer.Start(s.ctx, name, trace.WithTimestamp(from), trace.WithSpanKind(trace.SpanKindClient))
	if err != nil {
		part.SetAttributes(attribute.String("lockd.result", err.Error()))
	}
	part.End(trace.WithTimestamp(to))
}

// Granted implements broker.Span.
func (s *span) Granted(fence lock.Fence) {
	s.waited(time.Now())
	s.all.SetAttributes(attribute.String("lockd.result", "granted"), attribute.Int64("lockd.fence", int64(fence)))
	s.all.End()
}

// Refused implements broker.Span. That somebody else has the lock is no error.
func (s *span) Refused(cause error) {
	s.waited(time.Now())
	s.all.SetAttributes(attribute.String("lockd.result", cause.Error()))
	if lock.Retriable(cause) {
		s.all.SetStatus(codes.Error, cause.Error())
	}
	s.all.End()
}

// Sampled implements broker.Span.
func (s *span) Sampled() string {
	if sc := s.all.SpanContext(); sc.IsSampled() {
		return sc.TraceID().String()
	}
	return ""
}
