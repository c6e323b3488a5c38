package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What can go wrong in a store. A store wraps them.
var (
	// ErrHeld: another owner has the name. Usually inside a *HeldError.
	ErrHeld = errors.New("the lock is held")
	// ErrNotHeld: the owner does not hold the name.
	ErrNotHeld = errors.New("the lock is not held by this holder")
	// ErrOver is an ErrNotHeld that is sure: no call of this Return ended the hold, not even one whose outcome was
	// unknown. Only a majority returns it; of one store, ErrNotHeld from the first call says the same.
	ErrOver = fmt.Errorf("%w: it had ended before", ErrNotHeld)
	// ErrStale: the owner holds the name with another fence.
	ErrStale = errors.New("the fence is not that of the current hold")
	// ErrUnavailable: the store cannot be reached; surely nothing was done.
	ErrUnavailable = errors.New("the store cannot be reached")
	// ErrNoQuorum is an ErrUnavailable: of several stores too few can be reached.
	ErrNoQuorum = fmt.Errorf("%w: no majority of the stores can be reached, or votes", ErrUnavailable)
	// ErrNotReplicated is an ErrUnavailable: the claim was granted, but too few replicas acknowledged the grant. If the
	// store is settled, the hold was released.
	ErrNotReplicated = fmt.Errorf("%w: too few replicas acknowledged the grant", ErrUnavailable)
	// ErrInVain comes with the error of an AcquireAll that took some of the names. If the store is settled, they were
	// released.
	ErrInVain = errors.New("not all of the names were taken")
	// ErrOutcomeUnknown: the store did not answer; it may have acted.
	ErrOutcomeUnknown = errors.New("the store did not answer, the outcome is unknown")
	// ErrKindMismatch: the name is in use for something else.
	ErrKindMismatch = errors.New("the name is in use for something else")
	// ErrLimitMismatch: the semaphore has another limit. Usually inside a *LimitError.
	ErrLimitMismatch = errors.New("the semaphore has another limit")
	// ErrStoreFull: the store has no room.
	ErrStoreFull = errors.New("the store is full")
	// ErrUnsupported: this server cannot do that.
	ErrUnsupported = errors.New("not supported by this server")
	// ErrKindUnsupported is an ErrUnsupported: the store has no locks of this kind.
	ErrKindUnsupported = fmt.Errorf("%w: there are no locks of this kind where it keeps leases", ErrUnsupported)
	// ErrInvalid: a value is not allowed. Usually inside an *InvalidError.
	ErrInvalid = errors.New("invalid request")
)

// HeldError is ErrHeld with what is known of the hold in the way.
type HeldError struct {
	// Name is the lock in the way; empty stands for the only one that was claimed.
	Name string
	// RetryAfter is after what time the name may be free by itself: the remaining time of that hold, NoTTL if it has none.
	RetryAfter time.Duration
	HeldBy     Owner
	// Ahead is how many fair waiters, as far as known, are before the claim's owner; 0 for other kinds.
	Ahead int
}

func (e *HeldError) Error() string { return fmt.Sprintf("%v by %q", ErrHeld, e.HeldBy) }
func (e *HeldError) Unwrap() error { return ErrHeld }

// LimitError is ErrLimitMismatch with the semaphore's limit, 0 if it has none yet and none was claimed.
type LimitError struct{ Limit uint32 }

func (e *LimitError) Error() string {
	if e.Limit == 0 {
		return "the semaphore has no limit yet, and none was given"
	}
	return fmt.Sprintf("%v: %d", ErrLimitMismatch, e.Limit)
}
func (e *LimitError) Unwrap() error { return ErrLimitMismatch }

// GoneError says that a hold which was believed to be there is not.
type GoneError struct {
	// Reason is LostData if the store has lost its data since the hold was last seen, or forgot its fence; else
	// LostForced.
	Reason LostReason
}

func (e *GoneError) Error() string { return fmt.Sprintf("%v (%v)", ErrNotHeld, e.Reason) }
func (e *GoneError) Unwrap() error { return ErrNotHeld }

// InvalidError is ErrInvalid with the field and a machine-readable reason.
type InvalidError struct {
	Field  string
	Reason string // UPPER_SNAKE, part of the API
	Detail string
}

// Invalid is an *InvalidError.
func Invalid(field, reason, detail string) error { return &InvalidError{field, reason, detail} }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }
func (e *InvalidError) Unwrap() error { return ErrInvalid }

// Within puts path in front of the Field of an *InvalidError. It returns any other err as it is.
func Within(path string, err error) error {
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		return err
	}
	inner := *invalid
	inner.Field = path + "." + inner.Field
	return &inner
}

// The reasons of an InvalidError. They are part of the API.
const (
	ReasonName        = "INVALID_NAME"
	ReasonReserved    = "NAME_RESERVED"
	ReasonHolder      = "INVALID_HOLDER"
	ReasonActor       = "INVALID_ACTOR"
	ReasonKind        = "INVALID_KIND"
	ReasonDuration    = "INVALID_DURATION"
	ReasonAnnotation  = "INVALID_ANNOTATION"
	ReasonClient      = "INVALID_CLIENT"
	ReasonLeaseID     = "INVALID_LEASE_ID"
	ReasonRequestID   = "INVALID_REQUEST_ID"
	ReasonPage        = "INVALID_PAGE"
	ReasonPermits     = "INVALID_PERMITS"
	ReasonAlreadyHeld = "ALREADY_HELD"
	ReasonMessage     = "INVALID_MESSAGE"
	ReasonForced      = "INVALID_REASON"
)

// LostReason says why a hold was lost.
type LostReason uint8

// The reasons.
const (
	// LostExpired: its validity ended.
	LostExpired LostReason = iota + 1
	// LostForced: somebody freed the name by force.
	LostForced
	// LostData: the store lost its data.
	LostData
	// LostSession: the session ended.
	LostSession
	// LostQuorum: its validity ended while no majority of the stores could be reached.
	LostQuorum
	// LostForbidden: its client may lock the name no more.
	LostForbidden
	// LostMaxHold: it was held for the longest time that its request allows.
	LostMaxHold
)

// String is the reason's name in logs and metrics.
func (r LostReason) String() string {
	names := [...]string{
		"unknown", "expired", "forced", "data_loss", "session_ended", "no_quorum", "forbidden", "max_hold",
	}
	if int(r) >= len(names) {
		return names[0]
	}
	return names[r]
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Backoff is the pause after the n-th failure in a row.
func Backoff(n int) time.Duration { return min(firstPause<<min(n-1, 10), longestPause) }

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Retriable says whether a call that failed with err is worth another one: the store could not be reached, did not
// answer, or is full.
func Retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrStoreFull)
}

// Twice makes a call, and once more if its outcome is unknown. If the second one fails with a Retriable error, that
// says nothing of the first one, whose error is returned.
func Twice(call func() error) error { return Again(call(), call) }

// Again is Twice after the first call.
func Again(err error, call func() error) error {
	if !errors.Is(err, ErrOutcomeUnknown) {
		return err
	}
	if second := call(); !Retriable(second) {
		return second
	}
	return err
}
