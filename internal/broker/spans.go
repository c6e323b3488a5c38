package broker

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/lock"
)

// Tracer is told of requests for locks. All of it is called with mutexes held, so it must not block.
type Tracer interface {
	// Request begins the span of a request for a name, below the span of its caller: the one in ctx, or the one that a
	// W3C traceparent names. A text that is none is ignored. It never returns nil.
	Request(ctx context.Context, traceparent, name string, kind lock.Kind) Span
}

// Span is a request that is traced. After Granted or Refused nothing more is told of it.
type Span interface {
	// Waits says that the request waits in its queue from now on, until the next of the others.
	Waits()
	// Asked says that the store was asked for it, from when to when, and with which outcome.
	Asked(from, to time.Time, err error)
	// Handed says that it got its lock from the one before in the same call of the store, from when to when.
	Handed(from, to time.Time)
	Granted(fence lock.Fence)
	Refused(cause error)
	// Sampled is the id of the trace if it will be shown to somebody, else empty.
	Sampled() string
}

// errWithdrawn is the cause of the end of requests whose session has ended, or goes on elsewhere.
var errWithdrawn = errors.New("its session has ended here")

// untraced is the span of a request that nobody is told of, or of which no more is told.
type untraced struct{}

func (untraced) Waits()                        {}
func (untraced) Asked(_, _ time.Time, _ error) {}
func (untraced) Handed(_, _ time.Time)         {}
func (untraced) Granted(lock.Fence)            {}
func (untraced) Refused(error)                 {}
func (untraced) Sampled() string               { return "" }

// beginSpan has a request traced if there is a Tracer.
func (w *waiter) beginSpan(ctx context.Context, traceparent string) {
	if t := w.b.cfg.Tracer; t != nil {
		w.span = t.Request(ctx, traceparent, w.Claim.Name, w.Claim.Kind)
	}
}

// spanRefused ends the span of a request that was not granted. It may have ended before.
func (w *waiter) spanRefused(cause error) {
	w.span.Refused(cause)
	w.span = untraced{}
}

func (w *waiter) spanGranted(f lock.Fence) {
	w.span.Granted(f)
	w.span = untraced{}
}

// observeIn tells a histogram of a duration, with the trace that has it, if there is one.
func observeIn(to prometheus.Observer, d time.Duration, trace string) {
	if e, ok := to.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	to.Observe(d.Seconds())
}
