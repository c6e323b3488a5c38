package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who finds no slot waits as long as it may, and hears one reason if it gets none.
func TestWhoFindsNoSlot(t *testing.T) {
	errOver := errors.New("over")
	for name, row := range map[string]struct {
		patience, free, over, took time.Duration // free: when there is a slot; over: when its context is
		want                       error
	}{
		"does not wait":       {patience: 0, free: time.Hour, over: time.Hour, want: errDenied},
		"is late already":     {patience: -1, free: time.Hour, over: time.Hour, want: errDenied},
		"gets some in time":   {patience: 3, free: 2, over: time.Hour, took: 2},
		"waits in vain":       {patience: 3, free: 4, over: time.Hour, took: 3, want: errDenied},
		"goes before":         {patience: 3, free: 4, over: 2, took: 2, want: errOver},
		"goes while it waits": {patience: time.Hour, free: 4, over: 2, took: 2, want: errOver},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := NewQuota("things", 1, func(string, int) error { return errDenied })
			if err := q.Enter(t.Context(), 0); err != nil {
				t.Fatalf("%s: an empty one: %v", name, err)
			}
			ctx, end := context.WithCancelCause(t.Context())
			leave := time.AfterFunc(row.free, q.Leave)
			over := time.AfterFunc(row.over, func() { end(errOver) })
			begun := time.Now()
			if err := q.Enter(ctx, row.patience); !errors.Is(err, row.want) || time.Since(begun) != row.took {
				t.Errorf("%s: got %v after %v, want %v after %v", name, err, time.Since(begun), row.want, row.took)
			}
			leave.Stop()
			over.Stop()
		})
	}
}
