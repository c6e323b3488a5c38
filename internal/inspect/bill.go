package inspect

import (
	"context"
	"time"
)

type billKey struct{}

// Billed returns a context for calls of an Inspector that somebody pays for: pay is called, once or more often, with
// how long replicas worked for them.
func Billed(ctx context.Context, pay func(time.Duration)) context.Context {
	return context.WithValue(ctx, billKey{}, pay)
}

// bill makes the caller pay, if ctx is that of Billed.
func bill(ctx context.Context, took time.Duration) {
	if pay, ok := ctx.Value(billKey{}).(func(time.Duration)); ok && took > 0 {
		pay(took)
	}
}
