package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// errorDomain is the domain of the server's reasons.
const errorDomain = "lockd.io"

// reasons turns the server's reasons into errors; its mirror is the server's table of errors. A reason that ends in
// '*' stands for all that begin like it. From an error to a reason the first row that matches counts.
var reasons = []struct {
	reason string
	err    error
}{
	{"OUTCOME_UNKNOWN", ErrOutcomeUnknown},
	{"LOCK_LOST", ErrLost},
	{"UNAVAILABLE", ErrUnavailable}, // not told by the server, but of it
	{"LOCK_BUSY", ErrHeld},
	{"DEADLOCK", ErrDeadlock},
	{"WAIT_TIMEOUT", ErrTimedOut},
	{"WAIT_CANCELLED", ErrCancelled},
	{"LOCK_NOT_HELD", ErrNotHeld},
	{"FENCE_STALE", ErrStale},
	{"LEASE_IS_AUTO", ErrAutoLease},
	{"LOCK_CONFIG_MISMATCH", ErrKindMismatch},
	{"LOCK_CONFIG_MISMATCH", ErrLimitMismatch}, // told from the first by the limit that comes along
	{"LOCK_UPGRADE", ErrUpgrade},
	{"STORE_FULL", ErrStoreFull},
	{"DRAINING", ErrDraining},
	{"SESSION_EXPIRED", ErrSessionExpired},
	{"SUPERSEDED", ErrSuperseded},
	{"SESSION_SILENT", ErrSilent},
	{"STREAM_BACKLOG", ErrBacklog},
	{"UNIMPLEMENTED", ErrUnsupported},
	{"INVALID*", ErrInvalid},
	{"QUOTA*", ErrQuota},
	{"FORBIDDEN", ErrForbidden},
	{"UNAUTHENTICATED", ErrUnauthenticated}, // not told by the server, but without a reason of its own
	{"NO_CREDENTIALS", ErrUnauthenticated},
	{"TOKEN_INVALID", ErrUnauthenticated},
	{"TOKEN_EXPIRED", ErrUnauthenticated},
	{"CERTIFICATE_EXPIRED", ErrUnauthenticated},
	{"CLIENT_UNKNOWN", ErrUnauthenticated},
	{"IDENTITY_WITHDRAWN", ErrUnauthenticated},
	{"PERMISSION_DENIED", ErrDenied},
	{"ADMIN_ONLY", ErrDenied},
	{"CLIENT_CLOSED", ErrClosed},
	{"BACKEND_UNAVAILABLE", ErrUnavailable},
	{"NO_QUORUM", ErrUnavailable},
	{"KEYS_UNAVAILABLE", ErrUnavailable},
	{"KIND_UNSUPPORTED", ErrUnsupported},
	{"ALREADY_HELD", ErrInvalid},
	{"NAME_RESERVED", ErrInvalid},
	// A client that keeps to the protocol is never told these.
	{"PROTOCOL", errProtocol},
	{"REQUEST_NOT_WAITING", errProtocol},
	{"REQUEST_ID_REPEATED", errProtocol},
	{"SESSION_NOT_OPEN", errProtocol},
	{"SESSION_ALREADY_OPEN", errProtocol},
	{"FRAME_TOO_LARGE", errProtocol},
}

// codeErrors is for errors without a reason: those made by gRPC itself, or by something between us and the server.
var codeErrors = map[codes.Code]error{
	codes.Unavailable:       ErrUnavailable,
	codes.DeadlineExceeded:  ErrUnavailable,
	codes.Unimplemented:     ErrUnsupported,
	codes.InvalidArgument:   ErrInvalid,
	codes.ResourceExhausted: ErrQuota,
	codes.PermissionDenied:  ErrDenied,
	codes.Unauthenticated:   ErrUnauthenticated,
}

// statusError is a status of the server, with the error it stands for.
type statusError struct {
	st     *status.Status
	reason string
	err    error // nil if the status stands for nothing that this package knows
}

func (e *statusError) Error() string {
	text := e.st.Message()
	if text == "" {
		text = e.st.Code().String()
	}
	if e.reason != "" {
		text += " (" + e.reason + ")"
	}
	return text
}

func (e *statusError) Unwrap() error              { return e.err }
func (e *statusError) GRPCStatus() *status.Status { return e.st }

// FromStatus turns an error of a call on the generated stubs into one that this package's errors can be found in.
// Errors without a gRPC status are returned as they are.
func FromStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*statusError](err); ok {
		return err
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	f := &lockdv1.Failure{}
	for _, detail := range st.Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == errorDomain {
				f.Reason, f.Metadata = d.GetReason(), d.GetMetadata()
			}
		case *lockdv1.Deadlock:
			f.Deadlock = d
		}
	}
	return errorOf(explained(st), f)
}

// Reason is the machine-readable reason of an error, such as LOCK_BUSY: the server's own where it gave one. Empty if
// there is none.
func Reason(err error) string {
	if errors.Is(err, ErrLost) {
		return "LOCK_LOST" // and not why the session ended
	}
	if se, ok := errors.AsType[*statusError](err); ok && se.reason != "" {
		return se.reason
	}
	for _, row := range reasons {
		if errors.Is(err, row.err) {
			return strings.TrimSuffix(row.reason, "*")
		}
	}
	return ""
}

// fromFailure is the error that a stream told; nil if it told none.
func fromFailure(f *lockdv1.Failure) error {
	if f.GetCode() == int32(codes.OK) {
		return nil
	}
	code := codes.Code(f.GetCode()) //nolint:gosec // an unknown code is one as well
	return errorOf(status.New(code, f.GetMessage()), f)
}

// errorOf is a status, with what its failure stands for.
func errorOf(st *status.Status, f *lockdv1.Failure) error {
	e := &statusError{st: st, reason: f.GetReason()}
	for _, row := range reasons {
		begin, ok := strings.CutSuffix(row.reason, "*")
		if row.reason == e.reason || ok && strings.HasPrefix(e.reason, begin) {
			e.err = row.err
			break
		}
	}
	e.err = cmp.Or(e.err, codeErrors[st.Code()])
	limit, err := strconv.ParseUint(f.GetMetadata()["limit"], 10, 32)
	switch {
	case err == nil && errors.Is(e.err, ErrKindMismatch):
		e.err = &LimitError{Limit: uint32(limit)}
	case errors.Is(e.err, ErrForbidden):
		of := f.GetMetadata()
		e.err = &ForbiddenError{Client: of["client"], Right: of["right"], Name: of["name"]}
	case errors.Is(e.err, ErrDeadlock):
		e.err = deadlockOf(f.GetDeadlock())
	}
	return e
}

// fromStream says why a stream ended.
func fromStream(err error) error {
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return FromStatus(err)
}

// errEnded: the server ended the stream without an error.
var errEnded = errors.New("the server ended the session")

// is says whether an error is any of some others.
func is(err error, others ...error) bool {
	return slices.ContainsFunc(others, func(other error) bool { return errors.Is(err, other) })
}

// permanent says whether trying again soon is without hope.
func permanent(err error) bool { return is(err, ErrDenied, ErrInvalid, ErrUnsupported) }

// hopeless is permanent for a session that was open before: not for ErrUnauthenticated, as a token or a certificate is
// often renewed a moment later.
func hopeless(err error) bool { return permanent(err) && !errors.Is(err, ErrUnauthenticated) }

// refused is an error of ours that reads like one of the server.
func refused(code codes.Code, reason, text string) error {
	return errorOf(status.New(code, text), &lockdv1.Failure{Reason: reason})
}

// invalid is refused for a value that no server allows.
func invalid(reason, text string) error { return refused(codes.InvalidArgument, reason, text) }

// ended is the error of a call whose context ended.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}
