package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// started is a Store whose Acquire, Release and Extend go through StartAcquire and its like, so that the contract of
// the ones is tested on the others. It checks that done is called once.
type started struct{ lock.Store }

// Acquire is StartAcquire and a wait.
func (s started) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	if ctx.Err() != nil { // StartAcquire has no ctx
		return s.Store.Acquire(ctx, c)
	}
	return wait(func(done func(lock.Grant, error)) { s.StartAcquire(c, done) })
}

// Release is StartRelease and a wait.
func (s started) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if ctx.Err() != nil {
		return s.Store.Release(ctx, r)
	}
	return wait(func(done func(lock.Returned, error)) { s.StartRelease(r, done) })
}

// Extend is StartExtend and a wait.
func (s started) Extend(ctx context.Context, r lock.Renewal) (time.Duration, error) {
	if ctx.Err() != nil {
		return s.Store.Extend(ctx, r)
	}
	return wait(func(done func(time.Duration, error)) { s.StartExtend(r, done) })
}

func wait[T any](start func(done func(T, error))) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	outcomes := make(chan outcome, 1)
	var calls atomic.Int32
	start(func(v T, err error) {
		if calls.Add(1) > 1 {
			panic("done was called twice")
		}
		outcomes <- outcome{v, err}
	})
	o := <-outcomes
	return o.v, o.err
}
