package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockd-io/lockd/client"
)

// lockAll waits for the locks, no longer than --wait says. A server or a store that is away is waited for as a holder
// is.
func (x *execution) lockAll(ctx context.Context) (*client.Locks, error) {
	until := time.Now().Add(x.wait)
	var failing time.Time // since when
	told := ""
	for {
		begun := time.Now()
		opts := slices.Clone(x.lock)
		if x.bounded {
			opts = append(opts, client.Wait(time.Until(until)))
		}
		ls, err := x.client.LockAll(ctx, x.items, opts...)
		// else it waited for a holder in between
		if failing.IsZero() || time.Since(begun) > x.connect+client.DefaultAnswerTimeout {
			failing = time.Now()
		}
		if err == nil || !x.goesOn(err, time.Since(failing)) || x.bounded && time.Until(until) <= retryPause {
			return ls, err
		}
		if why := message(err); why != told {
			told = why
			x.logf("WAITING: for the server: %s", why)
		}
		sleep(ctx, retryPause)
	}
}

// goesOn says whether an error only means that the server, or its store, is away, and has not been for too long. The
// client has waited for a server already, but not for a store.
func (x *execution) goesOn(err error, away time.Duration) bool {
	switch {
	case errors.Is(err, client.ErrTimedOut), errors.Is(err, client.ErrCancelled):
		return false
	case x.patient:
		return errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) ||
			errors.Is(err, client.ErrDraining)
	}
	reason := client.Reason(err)
	return (reason == "BACKEND_UNAVAILABLE" || reason == "OUTCOME_UNKNOWN") && away+retryPause < x.connect
}
