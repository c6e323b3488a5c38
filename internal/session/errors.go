package session

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// What can go wrong, besides what the store answers. grpcapi has one table that gives each its code and reason.
var (
	// ErrTimedOut: the wait ended.
	ErrTimedOut = errors.New("the wait ended before the lock was granted")
	// ErrCancelled: the client took its request back.
	ErrCancelled = errors.New("the request was cancelled")
	// ErrDeadlock: the request waited for others that waited for it, and its session wants it to fail then.
	ErrDeadlock = errors.New("the request waited in a deadlock")
	// ErrLost: a hold ended without being released.
	ErrLost = errors.New("the lock was lost")
	// ErrNotWaiting: the request to cancel does not wait.
	ErrNotWaiting = errors.New("no such request waits")
	// ErrRepeated: the request id was used before.
	ErrRepeated = errors.New("the request id was used before, or is too far below the greatest one")
	// ErrUpgrade: a holder that reads cannot get the write lock: it would wait for itself.
	ErrUpgrade = errors.New("a read lock cannot be upgraded to a write lock")
	// ErrSessionExpired: the session ended, or never was.
	ErrSessionExpired = errors.New("the session has expired")
	// ErrSuperseded: the session goes on in another stream.
	ErrSuperseded = lock.ErrSuperseded
	// ErrSilent: the client was not heard for a session TTL.
	ErrSilent = errors.New("the client was silent for longer than its session TTL")
	// ErrBacklog: the client does not read its stream.
	ErrBacklog = errors.New("the client does not read its stream")
	// ErrDraining: the replica is about to stop.
	ErrDraining = errors.New("the replica is draining")
	// ErrNotOpen: a session begins with Open.
	ErrNotOpen = errors.New("the first message must be Open")
	// ErrOpenTwice: a session is opened once.
	ErrOpenTwice = errors.New("the session is open already")
	// ErrFrameTooLarge: a message is over the announced limit.
	ErrFrameTooLarge = errors.New("the message is larger than the limit")
	// ErrAdminOnly: only operators may do that.
	ErrAdminOnly = errors.New("only operators may do that, at the server's admin_listen address (127.0.0.1:7422 unless " +
		"it is configured otherwise; lockctl --admin-addr)")
	// ErrForbidden: the client has no right to do that. Usually inside a *ForbiddenError.
	ErrForbidden = errors.New("the client may not do that")
	// ErrUnauthenticated: it is not known who the client is, or not any more. Usually inside an *UnauthenticatedError.
	ErrUnauthenticated = errors.New("it is not known who the client is")
	// ErrQuota: a limit is reached. Usually inside a *QuotaError.
	ErrQuota = errors.New("a limit is reached")
)

// EndedError is ErrSessionExpired with the operator who ended the session, and why.
type EndedError struct{ Forced }

func (e *EndedError) Error() string {
	text := "an operator ended the session"
	if who := e.Who(); who != "" {
		text += ": " + who
	}
	if e.Why != "" {
		text += ": " + e.Why
	}
	return text
}
func (e *EndedError) Unwrap() error { return ErrSessionExpired }

// QuotaError is ErrQuota with the limit that is reached.
type QuotaError struct {
	// Subject is what is limited: "locks", "waiters", "watches", "queue", "sessions", "sessions_per_address",
	// "locks_per_address", "operations", "questions", "pages" and others.
	Subject string
	Limit   int
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("at most %d %s", e.Limit, strings.ReplaceAll(e.Subject, "_", " "))
}
func (e *QuotaError) Unwrap() error { return ErrQuota }
