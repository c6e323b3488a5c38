package lock

import (
	"context"
	"fmt"
)

// As finds the first store that is a T: s, the store that s wraps, the store that that one wraps, and so on. ok is
// false if none is.
func As[T any](s Store) (t T, ok bool) {
	for {
		if t, ok = s.(T); ok {
			return t, true
		}
		w, wraps := s.(interface{ Unwrap() Store })
		if !wraps {
			return t, false
		}
		s = w.Unwrap()
	}
}

// Begin is the error of a call that may not begin: ErrUnavailable if ctx has ended, ErrUnsupported if there is no such
// kind.
func Begin(ctx context.Context, kind Kind) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
	if !kind.Valid() {
		return fmt.Errorf("kind %v: %w", kind, ErrUnsupported)
	}
	return nil
}

// Await starts something and waits for its outcome, which start tells to done. If ctx has ended, nothing is started. A
// ctx that ends later makes no difference: the call bounds itself.
func Await[R, T any](ctx context.Context, start func(r R, done func(T, error)), r R) (T, error) {
	type outcome struct {
		v   T
		err error
	}
	if ctx.Err() != nil {
		return *new(T), fmt.Errorf("%w: %w", ErrUnavailable, context.Cause(ctx))
	}
	told := make(chan outcome, 1)
	start(r, func(v T, err error) { told <- outcome{v, err} })
	o := <-told
	return o.v, o.err
}
