package client

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// What can go wrong. Test with errors.Is; errors that come from the server also keep their gRPC status, which
// errors.As finds through an interface{ GRPCStatus() *status.Status }.
var (
	// ErrHeld: somebody else holds the name. Inside a *HeldError.
	ErrHeld = errors.New("the lock is held")
	// ErrTimedOut: the time given by Wait ended.
	ErrTimedOut = errors.New("the wait ended before the lock was granted")
	// ErrDeadlock: the request waited in a deadlock, and WithFailOnDeadlock was asked for. Inside a *DeadlockError.
	ErrDeadlock = errors.New("the request waited in a deadlock")
	// ErrCancelled: the context of a waiting Lock ended. Its cause is in the same error.
	ErrCancelled = errors.New("the wait was cancelled")
	// ErrNotHeld: the lock is not held any more, or was unlocked already.
	ErrNotHeld = errors.New("the lock is not held")
	// ErrStale: the name is held with a newer fence.
	ErrStale = errors.New("the fence is not that of the current hold")
	// ErrLost: the lock ended without Unlock. Inside a *LostError.
	ErrLost = errors.New("the lock was lost")
	// ErrUnlocked: the cause of a lock's context after Unlock. Not a failure.
	ErrUnlocked = errors.New("the lock was unlocked")
	// ErrAutoLease: the lease is renewed by itself, there is nothing to extend.
	ErrAutoLease = errors.New("an auto lease is renewed by itself and cannot be extended")
	// ErrUnavailable: the server, or its store, cannot be reached. Surely nothing was done, unless the error is
	// ErrOutcomeUnknown too.
	ErrUnavailable = errors.New("the lock service cannot be reached")
	// ErrOutcomeUnknown: what was asked for may have been done, or not. See the package documentation for what
	// becomes of it.
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
	// ErrDraining: the replica is about to stop. The Client goes to another one by itself.
	ErrDraining = errors.New("the replica is draining")
	// ErrKindMismatch: the name is in use with another kind, or for something else.
	ErrKindMismatch = errors.New("the name is in use for something else")
	// ErrLimitMismatch: the semaphore has another limit. Inside a *LimitError.
	ErrLimitMismatch = errors.New("the semaphore has another limit")
	// ErrUpgrade: a Holder with the Read lock of a name asked for its Write lock, and so would wait for itself.
	ErrUpgrade = errors.New("a read lock cannot be upgraded to a write lock")
	// ErrStoreFull: the store has no room.
	ErrStoreFull = errors.New("the store is full")
	// ErrUnsupported: this server cannot do that.
	ErrUnsupported = errors.New("not supported by this server")
	// ErrSessionExpired: the session ended, or never was.
	ErrSessionExpired = errors.New("the session has expired")
	// ErrSuperseded: the session goes on in another stream.
	ErrSuperseded = errors.New("the session goes on in another stream")
	// ErrSilent: one side did not hear the other for a session TTL.
	ErrSilent = errors.New("nothing was heard for longer than the session TTL")
	// ErrBacklog: the server ended the session because this client did not read the stream.
	ErrBacklog = errors.New("the stream was not read")
	// ErrInvalid: the server does not allow a value; Reason tells which.
	ErrInvalid = errors.New("invalid request")
	// ErrQuota: a limit of the server is reached; Reason tells which.
	ErrQuota = errors.New("a limit is reached")
	// ErrDenied: the server does not let this client do that. ErrForbidden and ErrUnauthenticated are this, too.
	ErrDenied = errors.New("permission denied")
	// ErrForbidden: this client has no right to do that. Inside a *ForbiddenError.
	ErrForbidden = fmt.Errorf("%w: a right is missing", ErrDenied)
	// ErrUnauthenticated: the server does not accept the certificate or the token, or there is none; Reason tells why.
	ErrUnauthenticated = fmt.Errorf("%w: the server does not know who this is", ErrDenied)
	// ErrClosed: the Client was closed.
	ErrClosed = errors.New("the client is closed")
)

// errProtocol: one side does not keep to the protocol.
var errProtocol = errors.New("the protocol was broken")

// HeldError is ErrHeld with what is known of the hold in the way.
type HeldError struct {
	// Name is the lock; for LockAll the one in the way, empty if it is not known.
	Name string
	// RetryAfter is how long that hold lasts unless it is renewed or released, 0 if that is not known.
	RetryAfter time.Duration
	// HeldBy begins with "<session>:<holder>", or is the id that another Redis client uses. Empty if it is not known.
	HeldBy string
	// Client is the name of the client that holds the lock, Annotation the first 256 bytes of the hold's annotation, Peer
	// the client's network address, and HeldFor how long it has held the lock. These are for people, and empty if the
	// replica that answered does not know them.
	Client, Annotation, Peer string
	HeldFor                  time.Duration
}

func (e *HeldError) Error() string {
	if who := e.Who(); who != "" {
		return ErrHeld.Error() + " by " + who
	}
	return ErrHeld.Error()
}

// Who says who holds the lock as a person would, such as "billing (nightly) from 10.0.0.7:40312 for 12s"; empty if
// nothing is known.
func (e *HeldError) Who() string {
	who := shown(cmp.Or(e.Client, e.HeldBy))
	if who != "" && e.Annotation != "" {
		who += " (" + shown(e.Annotation) + ")"
	}
	if who != "" && e.Peer != "" {
		who += " from " + shown(e.Peer)
	}
	if who != "" && e.HeldFor > 0 {
		who += " for " + e.HeldFor.Round(max(time.Millisecond, min(e.HeldFor.Truncate(time.Second), time.Second))).String()
	}
	return who
}

// shown is a text of another client, safe to print: quoted if it has characters that are not printable.
func shown(text string) string {
	if quoted := strconv.Quote(text); strings.ContainsRune(quoted, '\\') {
		return quoted
	}
	return text
}

// HeldErrorOf makes a *HeldError of the answer to a request for a name, for programs that use the generated stubs.
func HeldErrorOf(name string, n *lockdv1.NotGranted) *HeldError {
	e := heldBy(name, n)
	e.RetryAfter = n.GetRetryAfter().AsDuration()
	return e
}

// heldBy makes a *HeldError of a message that says who is in the way of a request for a name.
func heldBy(name string, m interface {
	GetName() string
	GetHeldBy() string
	GetClient() string
	GetAnnotation() string
	GetPeer() string
	GetHeldFor() *durationpb.Duration
},
) *HeldError {
	return &HeldError{
		Name: cmp.Or(m.GetName(), name), HeldBy: m.GetHeldBy(), Client: m.GetClient(), Annotation: m.GetAnnotation(),
		Peer: m.GetPeer(), HeldFor: m.GetHeldFor().AsDuration(),
	}
}

// Unwrap makes it ErrHeld.
func (e *HeldError) Unwrap() error { return ErrHeld }

// LimitError is ErrLimitMismatch with the limit that the semaphore has.
type LimitError struct {
	// Limit is how many permits there are, 0 if neither this request nor an earlier one has set that.
	Limit uint32
}

func (e *LimitError) Error() string {
	if e.Limit == 0 {
		return "the semaphore has no limit yet, and none was given"
	}
	return fmt.Sprintf("%v: %d", ErrLimitMismatch, e.Limit)
}

// Unwrap makes it ErrLimitMismatch.
func (e *LimitError) Unwrap() error { return ErrLimitMismatch }

// ForbiddenError is ErrForbidden with the right that is missing.
type ForbiddenError struct {
	// Client is this client's name in the server's clients file.
	Client string
	// Right is the right that is missing, such as "lock", or "drain" for an operator.
	Right string
	// Name is the lock that the right is missing for, empty for an admin right.
	Name string
}

func (e *ForbiddenError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("the client %q of the clients file has no admin right %q", e.Client, e.Right)
	}
	return fmt.Sprintf("the client %q of the clients file may not %s %s", e.Client, e.Right, quoted(e.Name))
}

// Unwrap makes it ErrForbidden.
func (e *ForbiddenError) Unwrap() error { return ErrForbidden }

// LostReason says why a lock was lost.
type LostReason string

// The reasons. Others may come with a newer lockd.
const (
	// LostExpired: the server could not renew the lease in time, or a fixed lease ended.
	LostExpired LostReason = "expired"
	// LostForced: somebody freed the name by force.
	LostForced LostReason = "forced"
	// LostData: the store lost its data.
	LostData LostReason = "data_loss"
	// LostSession: the session ended, and could not go on in another stream.
	LostSession LostReason = "session_ended"
	// LostQuorum: no majority of the stores holds it.
	LostQuorum LostReason = "no_quorum"
	// LostForbidden: this client has no right to lock the name any more.
	LostForbidden LostReason = "forbidden"
	// LostDeadline: the deadline passed, and this client was told of no renewal.
	LostDeadline LostReason = "deadline_passed"
)

// LostError is ErrLost with the reason.
type LostError struct {
	// Name is the lock.
	Name   string
	Reason LostReason
	// MaxHold may be set with LostExpired: the lock was held for as long as the option MaxHold allows.
	MaxHold bool
	// Err is set with LostSession: what ended the session.
	Err error
	// By and Why are set with LostForced: who released the lock by force, and why, in the words of that person. They are
	// empty if that is not known.
	By, Why string
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("%v: %s: %s", ErrLost, quoted(e.Name), e.Reason)
	if e.MaxHold {
		text += ": held for the time of MaxHold"
	}
	if e.By != "" {
		text += fmt.Sprintf(" by %q", e.By)
	}
	if e.Why != "" {
		text += fmt.Sprintf(": %q", e.Why)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap makes it ErrLost, and what ended the session.
func (e *LostError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLost}
	}
	return []error{ErrLost, e.Err}
}

// quotedBytes is how much of a name an error repeats.
const quotedBytes = 128

// quoted is a name as errors show it: of a very long one the beginning.
func quoted(name string) string {
	if len(name) <= quotedBytes {
		return strconv.Quote(name)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(name[:quotedBytes], ""), len(name))
}
