package grpcapi

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/internal/session"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

// errorDomain is the domain of all reasons.
const errorDomain = "lockd.io"

// table gives each broker error its code and reason. The first row that matches counts: an outcome that is unknown
// stays unknown whatever else is true.
var table = []struct {
	err    error
	code   codes.Code
	reason string
	retry  time.Duration // told as RetryInfo unless negative
}{
	{lock.ErrOutcomeUnknown, codes.Unavailable, "OUTCOME_UNKNOWN", time.Second},
	{lock.ErrNoQuorum, codes.Unavailable, "NO_QUORUM", time.Second},
	{lock.ErrNotReplicated, codes.Unavailable, "BACKEND_UNAVAILABLE", time.Second},
	{lock.ErrUnavailable, codes.Unavailable, "BACKEND_UNAVAILABLE", time.Second},
	{lock.ErrStoreFull, codes.ResourceExhausted, "STORE_FULL", 5 * time.Second},
	{session.ErrDraining, codes.Unavailable, "DRAINING", 0},
	{lock.ErrHeld, codes.Aborted, "LOCK_BUSY", -1},
	{session.ErrDeadlock, codes.Aborted, "DEADLOCK", -1},
	{session.ErrTimedOut, codes.DeadlineExceeded, "WAIT_TIMEOUT", -1},
	{session.ErrCancelled, codes.Canceled, "WAIT_CANCELLED", -1},
	{lock.ErrOver, codes.FailedPrecondition, "LOCK_NOT_HELD", -1},
	{lock.ErrNotHeld, codes.FailedPrecondition, "LOCK_NOT_HELD", -1},
	{lock.ErrStale, codes.Aborted, "FENCE_STALE", -1},
	{session.ErrLost, codes.Aborted, "LOCK_LOST", -1},
	{session.ErrNotWaiting, codes.NotFound, "REQUEST_NOT_WAITING", -1},
	{session.ErrRepeated, codes.AlreadyExists, "REQUEST_ID_REPEATED", -1},
	{lock.ErrKindMismatch, codes.FailedPrecondition, "LOCK_CONFIG_MISMATCH", -1},
	{lock.ErrLimitMismatch, codes.FailedPrecondition, "LOCK_CONFIG_MISMATCH", -1},
	{session.ErrUpgrade, codes.FailedPrecondition, "LOCK_UPGRADE", -1},
	{lock.ErrKindUnsupported, codes.FailedPrecondition, "KIND_UNSUPPORTED", -1},
	{lock.ErrUnsupported, codes.Unimplemented, "UNIMPLEMENTED", -1},
	{session.ErrSessionExpired, codes.NotFound, "SESSION_EXPIRED", -1},
	{session.ErrSuperseded, codes.Aborted, "SUPERSEDED", -1},
	{session.ErrSilent, codes.DeadlineExceeded, "SESSION_SILENT", -1},
	{session.ErrBacklog, codes.ResourceExhausted, "STREAM_BACKLOG", -1},
	{session.ErrNotOpen, codes.FailedPrecondition, "SESSION_NOT_OPEN", -1},
	{session.ErrOpenTwice, codes.FailedPrecondition, "SESSION_ALREADY_OPEN", -1},
	{session.ErrFrameTooLarge, codes.ResourceExhausted, "FRAME_TOO_LARGE", -1},
	{session.ErrAdminOnly, codes.PermissionDenied, "ADMIN_ONLY", -1},
	{session.ErrForbidden, codes.PermissionDenied, "FORBIDDEN", -1},
	{session.ErrUnauthenticated, codes.Unauthenticated, "NO_CREDENTIALS", -1}, // each has a reason of its own
	{session.ErrQuota, codes.ResourceExhausted, "QUOTA", time.Second},
	{lock.ErrInVain, codes.Unavailable, "BACKEND_UNAVAILABLE", time.Second}, // its cause may have a row above
	{lock.ErrInvalid, codes.InvalidArgument, "INVALID_MESSAGE", -1},
}

// toFailure says why something failed, with its code, its reason and what else is known: the typed form, for streams.
func toFailure(err error) *lockdv1.Failure {
	f, _ := failure(err)
	return f
}

// failure is toFailure that also returns the detail of google.rpc for what the error carries, nil if there is none.
func failure(err error) (f *lockdv1.Failure, detail protoadapt.MessageV1) {
	for _, row := range table {
		if !errors.Is(err, row.err) {
			continue
		}
		code := int32(row.code) //nolint:gosec // at most 16
		f = &lockdv1.Failure{Code: code, Message: row.err.Error(), Reason: row.reason}
		if row.retry >= 0 {
			f.RetryAfter = durationpb.New(row.retry)
		}
		return f, specify(f, err)
	}
	st := status.Convert(withoutRow(err))
	return &lockdv1.Failure{Code: int32(st.Code()), Message: st.Message()}, nil //nolint:gosec // at most 16
}

// withoutRow is for an error that has no row. One of gRPC itself is passed on, any other is Internal with a neutral
// text: it may hold what clients must not see.
func withoutRow(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, "internal error")
}

// toStatus is toFailure as the status of a call or of a stream: the typed form of google.rpc. Its first detail is the
// ErrorInfo.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	f, detail := failure(err)
	if f.GetReason() == "" {
		return withoutRow(err)
	}
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{Domain: errorDomain, Reason: f.GetReason(), Metadata: f.GetMetadata()},
	}
	if detail != nil {
		details = append(details, detail)
	}
	if f.GetRetryAfter() != nil {
		details = append(details, &errdetails.RetryInfo{RetryDelay: f.GetRetryAfter()})
	}
	plain := status.New(codes.Code(f.GetCode()), f.GetMessage()) //nolint:gosec // at most 16
	if detailed, err := plain.WithDetails(details...); err == nil {
		return detailed.Err()
	}
	return plain.Err() // cannot be: all details are messages
}

// reasonTrailer has the reason as plain text, for clients that cannot read the details of google.rpc.
const reasonTrailer = "lockd-reason"

// trailer is what comes with a status; nil if it has no reason.
func trailer(err error) metadata.MD {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return metadata.Pairs(reasonTrailer, info.GetReason())
		}
	}
	return nil
}

// specify adds to f what err carries: its text, its own reason and metadata. It returns the detail of google.rpc for
// that, nil if there is none. The store's own words stay in the log.
func specify(f *lockdv1.Failure, err error) (detail protoadapt.MessageV1) {
	var invalid *lock.InvalidError
	var quota *session.QuotaError
	var limit *lock.LimitError
	var circle *deadlock.Error
	var forbidden *session.ForbiddenError
	var unknown *session.UnauthenticatedError
	var ended *session.EndedError
	switch {
	case errors.As(err, &forbidden):
		f.Message = forbidden.Error()
		f.Metadata = map[string]string{"client": forbidden.Client, "right": forbidden.Right, "name": forbidden.Name}
		if forbidden.Name == "" {
			delete(f.Metadata, "name")
		}
	case errors.As(err, &unknown):
		f.Message, f.Reason = unknown.Error(), unknown.Reason
		if unknown.Reason == security.ReasonKeysUnavailable {
			f.Code, f.RetryAfter = int32(codes.Unavailable), durationpb.New(time.Second)
		}
	case errors.As(err, &circle):
		f.Message, f.Deadlock = circle.Error(), fromDeadlock(circle.Deadlock)
		return protoadapt.MessageV1Of(f.GetDeadlock())
	case errors.Is(err, lock.ErrNotReplicated):
		f.Metadata = map[string]string{"cause": "NOT_REPLICATED"}
	case errors.As(err, &limit):
		f.Message, f.Metadata = limit.Error(), map[string]string{"limit": strconv.FormatUint(uint64(limit.Limit), 10)}
	case errors.As(err, &invalid):
		f.Message, f.Reason = invalid.Error(), invalid.Reason
		if invalid.Field != "" {
			f.Metadata = map[string]string{"field": invalid.Field}
		}
		return &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: invalid.Field, Description: invalid.Detail, Reason: invalid.Reason},
		}}
	case errors.As(err, &quota):
		f.Message, f.Reason = err.Error(), "QUOTA_"+strings.ToUpper(quota.Subject)
		f.Metadata = map[string]string{"limit": strconv.Itoa(quota.Limit)}
		return &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: quota.Subject, Description: quota.Error()},
		}}
	case errors.As(err, &ended):
		f.Message = ended.Error()
	case errors.Is(err, lock.ErrInvalid), errors.Is(err, session.ErrQuota):
		f.Message = err.Error()
	}
	return nil
}
