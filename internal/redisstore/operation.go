package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// operation is an acquisition or a release. An ordinary one is a pipe.Single: those that wait for Redis at the same
// time go as one call, see many.go. One that waits alone, and any other one, is a call of its own script.
type operation struct {
	store    *Store
	acquires bool
	claim    lock.Claim                 // of an acquisition
	granted  func(lock.Grant, error)    // likewise
	back     lock.Return                // of a release
	returned func(lock.Returned, error) // likewise

	ordinary
}

type outcome struct {
	grant lock.Grant
	back  lock.Returned
	err   error
}

func (s *Store) acquisition(c lock.Claim, done func(lock.Grant, error)) *operation {
	op := &operation{store: s, acquires: true, claim: c, granted: done}
	op.ofClaim()
	return op
}

func (s *Store) release(r lock.Return, done func(lock.Returned, error)) *operation {
	op := &operation{store: s, back: r, returned: done}
	op.ofReturn()
	return op
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	s.acquisition(c, done).start()
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	s.release(r, done).start()
}

// start sends the operation to Redis. Its outcome is told later, by another goroutine.
func (op *operation) start() {
	if err := lock.Begin(context.Background(), op.kind()); err != nil {
		go op.tell(op.failed(err))
		return
	}
	if op.letter == 0 {
		op.store.Start(op.call(), func(a script.Answer, err error) { op.tell(op.read(a, err)) })
		return
	}
	j := pipe.Job{Single: op, Queued: time.Now(), Cost: op.cost(), From: op.tenant()}
	if err := op.store.Shared.Put(j); err != nil {
		go op.Fail(0, err)
	}
}

func (op *operation) call() script.Call {
	var c script.Call
	if op.acquires {
		c = op.store.acquireCall(op.claim)
	} else {
		c = op.store.releaseCall(op.back)
	}
	c.Grants = op.grants()
	return c.As(op.tenant())
}

// grants says whether the operation may take something, for its owner or for a successor.
func (op *operation) grants() bool { return op.acquires || op.back.Next != nil }

func (op *operation) kind() lock.Kind { return cmp.Or(op.claim.Kind, op.back.Kind) }

func (op *operation) tenant() string {
	if op.acquires {
		return op.claim.Owner.For(op.claim.Tenant)
	}
	return op.back.Owner.For(op.back.Tenant)
}

// answered tells the outcome of an ordinary operation, and observes how long it took.
func (op *operation) answered(took time.Duration, o outcome) {
	op.script.Observe(took)
	op.tell(o)
}

// Fail implements pipe.Single: it tells an ordinary operation an error of the pipeline.
func (op *operation) Fail(took time.Duration, err error) {
	op.answered(took, op.failed(op.store.Failed(err)))
}

func (op *operation) tell(o outcome) {
	if op.acquires {
		op.granted(o.grant, o.err)
	} else {
		op.returned(o.back, o.err)
	}
}

// failed is the outcome for an error of package lock.
func (op *operation) failed(err error) outcome {
	if op.acquires {
		return outcome{err: fmt.Errorf("acquire %q: %w", op.claim.Name, err)}
	}
	return outcome{err: fmt.Errorf("release %q: %w", op.back.Name, err)}
}

// read reads what the operation's own script answered.
func (op *operation) read(a script.Answer, err error) (o outcome) {
	switch {
	case err != nil:
	case op.acquires && a.Code() == script.Done:
		o.grant, err = lock.Grant{Fence: a.Fence(1), TTL: script.TTL(a.Int(2))}, a.Few
	case op.acquires:
		err = a.Denial(1, "")
	case a.Code() == script.Done:
		o.back.Listeners = int(a.Int(1))
		switch op.back.Kind {
		case lock.Fair:
			o.back.Turn = lock.Owner(a.Text(2))
		case lock.Semaphore:
			o.back.Left = a.Number(2)
		default:
		}
	case a.Code() == script.Handoff:
		o.back.HandedOver, err = a.Fence(1), a.Few
	default:
		err = a.Refusal()
	}
	if err = cmp.Or(a.Err, err); err != nil {
		return op.failed(err)
	}
	return o
}

// element reads what script/many.lua answered for the operation: a number in the ordinary case, else what the
// operation's own script would answer.
func (op *operation) element(v any) outcome {
	switch v := v.(type) {
	case int64:
		if op.acquires && v > 0 {
			return outcome{grant: lock.Grant{Fence: lock.Fence(v), TTL: script.TTL(script.Millis(op.claim.TTL))}}
		}
		if !op.acquires && v >= 0 {
			return outcome{back: lock.Returned{Listeners: int(v)}}
		}
	case []any:
		return op.read(script.Answer{List: v}, nil)
	case string:
		return op.failed(op.store.Failed(pipe.ReplyError(v)))
	}
	return op.failed(fmt.Errorf("%w: %w: %v", lock.ErrOutcomeUnknown, script.ErrBadAnswer, v))
}
