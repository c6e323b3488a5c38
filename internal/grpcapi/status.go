package grpcapi

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
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
	{session.ErrQuota, codes.ResourceExhausted, "QUOTA", time.Second},
	{lock.ErrInvalid, codes.InvalidArgument, "INVALID_MESSAGE", -1},
}

// toStatus turns an error into a status error with its code, its reason and what else is known. An error of gRPC
// itself is passed on. One that has no row is Internal with a neutral text: it may hold what clients must not see.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range table {
		if !errors.Is(err, row.err) {
			continue
		}
		info := &errdetails.ErrorInfo{Domain: errorDomain, Reason: row.reason}
		details := append([]protoadapt.MessageV1{info}, specifics(err, info)...)
		if row.retry >= 0 {
			details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(row.retry)})
		}
		return withDetails(row.code, text(err, row.err), details)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, "internal error")
}

// text is what people read: the store's own words stay in the log.
func text(err, sentinel error) string {
	if limit, ok := errors.AsType[*lock.LimitError](err); ok {
		return limit.Error()
	}
	if invalid, ok := errors.AsType[*lock.InvalidError](err); ok {
		return invalid.Error()
	}
	if circle, ok := errors.AsType[*deadlock.Error](err); ok {
		return circle.Error()
	}
	if errors.Is(err, lock.ErrInvalid) || errors.Is(err, session.ErrQuota) {
		return err.Error()
	}
	return sentinel.Error()
}

// specifics adds what an error carries, and its own reason.
func specifics(err error, info *errdetails.ErrorInfo) []protoadapt.MessageV1 {
	var invalid *lock.InvalidError
	var quota *session.QuotaError
	var limit *lock.LimitError
	var circle *deadlock.Error
	switch {
	case errors.As(err, &circle):
		return []protoadapt.MessageV1{protoadapt.MessageV1Of(fromDeadlock(circle.Deadlock))}
	case errors.Is(err, lock.ErrNotReplicated):
		info.Metadata = map[string]string{"cause": "NOT_REPLICATED"}
	case errors.As(err, &limit):
		info.Metadata = map[string]string{"limit": strconv.FormatUint(uint64(limit.Limit), 10)}
	case errors.As(err, &invalid):
		info.Reason = invalid.Reason
		return []protoadapt.MessageV1{&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: invalid.Field, Description: invalid.Detail, Reason: invalid.Reason},
		}}}
	case errors.As(err, &quota):
		info.Reason = "QUOTA_" + strings.ToUpper(quota.Subject)
		info.Metadata = map[string]string{"limit": strconv.Itoa(quota.Limit)}
		return []protoadapt.MessageV1{&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{
			{Subject: quota.Subject, Description: quota.Error()},
		}}}
	}
	return nil
}

func withDetails(code codes.Code, msg string, details []protoadapt.MessageV1) error {
	plain := status.New(code, msg)
	detailed, err := plain.WithDetails(details...)
	if err != nil { // cannot be: all details are messages
		return plain.Err()
	}
	return detailed.Err()
}
