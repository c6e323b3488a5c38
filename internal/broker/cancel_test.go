package broker_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// endings is a Tracer that a test has called at the end of each request, while lockd is in the middle of answering it.
type endings struct {
	noop.Tracer

	mu   sync.Mutex
	then func()
}

type ending struct {
	noop.Span
	*endings
}

func (e *endings) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if name != "lockd acquire" {
		return ctx, noop.Span{}
	}
	return ctx, ending{endings: e}
}

func (e ending) End(...trace.SpanEndOption) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.then != nil {
		e.then()
	}
}

func isAnswer(e session.Event, id uint64) (is bool) {
	switch e := e.(type) {
	case session.Granted:
		is = e.ID == id
	case session.NotGranted:
		is = e.ID == id
	case session.Failed:
		is = e.ID == id
	}
	return is
}

// TestWhoDoesNotWaitIsAnswered ends waits in all ways, and looks for the request in the middle of that, as a Cancel
// does. It fails if a request is not found whose answer is not in the outbox yet: the Cancel would be answered before.
func TestWhoDoesNotWaitIsAnswered(t *testing.T) {
	job := session.Hold{Name: "job", Kind: lock.Exclusive, Holder: "#1"}
	wait := time.Second
	for what, ask := range map[string]func(w *world, c, other *client){
		"granted at once": func(_ *world, c, _ *client) {
			c.acquire(request.Acquire{Name: "job"})
		},
		"handed over": func(w *world, c, other *client) {
			other.take("job")
			c.queue("job")
			other.Release(other.id(), job)
		},
		"timed out": func(w *world, c, other *client) {
			other.take("job")
			c.acquire(request.Acquire{Name: "job", Wait: &wait})
			time.Sleep(wait)
		},
		"tried": func(w *world, c, other *client) {
			other.take("job")
			c.acquire(request.Acquire{Name: "job", Wait: new(time.Duration)})
		},
		"several names": func(w *world, c, other *client) {
			other.take("job")
			c.acquire(request.Acquire{
				Name: "first", Kind: lock.Exclusive, More: []request.Item{{Name: "job", Kind: lock.Exclusive}},
			})
			other.Release(other.id(), job)
		},
		"fair": func(w *world, c, other *client) {
			other.takeAs(request.Acquire{Name: "job", Kind: lock.Fair})
			c.acquire(request.Acquire{Name: "job", Kind: lock.Fair})
			other.Release(other.id(), session.Hold{Name: "job", Kind: lock.Fair, Holder: "#1"})
		},
		"a writer behind a reader": func(w *world, c, other *client) {
			other.takeAs(request.Acquire{Name: "job", Kind: lock.Read})
			c.acquire(request.Acquire{Name: "job", Kind: lock.Write})
			other.Release(other.id(), session.Hold{Name: "job", Kind: lock.Read, Holder: "#1"})
		},
		"a reader that writes": func(w *world, c, _ *client) {
			c.takeAs(request.Acquire{Name: "job", Kind: lock.Write, Holder: "h"})
			c.acquire(request.Acquire{Name: "job", Kind: lock.Read, Holder: "h"})
		},
		"once more": func(w *world, c, _ *client) {
			c.takeAs(request.Acquire{Name: "job", Holder: "h"})
			c.acquire(request.Acquire{Name: "job", Holder: "h"})
		},
		"an upgrade": func(w *world, c, other *client) {
			c.takeAs(request.Acquire{Name: "job", Kind: lock.Read, Holder: "h"})
			c.acquire(request.Acquire{Name: "job", Kind: lock.Write, Holder: "h"})
		},
		"the store fails": func(w *world, c, _ *client) {
			w.store.setDown(lock.ErrStoreFull)
			c.acquire(request.Acquire{Name: "job", Wait: new(time.Duration)})
		},
	} {
		t.Run(what, func(t *testing.T) {
			cfg, at := testConfig(), new(endings)
			cfg.Tracer = at
			inWorldWith(t, cfg, func(w *world) {
				c, other := w.open(), w.open()
				var early, told bool
				at.then = func() {
					id := c.lastID // that of the request; it may just be being asked for
					if id == 0 {
						return // another client's
					}
					c.putBack(c.Outbox().TakeSome(math.MaxInt, math.MaxInt)...)
					for _, e := range c.back {
						told = told || isAnswer(e, id)
					}
					_, waits := c.Waiting(id)
					early = early || !waits && !told
				}
				ask(w, c, other)
				c.events()
				if early {
					t.Error("the request does not wait, and its answer is not in the outbox")
				}
				w.store.setDown(nil)
			})
		})
	}
}
