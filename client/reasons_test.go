package client_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// TestEveryReasonOfTheServerIsKnown reads the server's table, of which this package must not import anything.
func TestEveryReasonOfTheServerIsKnown(t *testing.T) {
	table, err := os.ReadFile("../internal/grpcapi/status.go")
	harness.Must(t, err)
	rows := regexp.MustCompile(`\{\w+\.Err\w+, codes\.\w+, "([A-Z_]+)"`).FindAllSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("found %d rows in the server's table, has its form changed?", len(rows))
	}
	for _, row := range rows {
		reason := string(row[1])
		mapped := client.FromStatus(refusal(codes.Unknown, reason))
		if got := client.Reason(mapped); got != reason {
			t.Errorf("%s: got the reason %q", reason, got)
		}
		if u, ok := mapped.(interface{ Unwrap() error }); !ok || u.Unwrap() == nil {
			t.Errorf("%s stands for no error of this package", reason)
		}
		if status.Code(mapped) != codes.Unknown {
			t.Errorf("%s: the status was lost: %v", reason, mapped)
		}
	}
}

func TestReasonsStandForErrors(t *testing.T) {
	for reason, want := range map[string]error{
		"LOCK_CONFIG_MISMATCH": client.ErrKindMismatch, "BACKEND_UNAVAILABLE": client.ErrUnavailable,
		"OUTCOME_UNKNOWN": client.ErrOutcomeUnknown, "QUOTA_WAITERS": client.ErrQuota, "INVALID_NAME": client.ErrInvalid,
		"UNIMPLEMENTED": client.ErrUnsupported, "KEYS_UNAVAILABLE": client.ErrUnavailable,
		"NO_CREDENTIALS": client.ErrUnauthenticated, "TOKEN_INVALID": client.ErrUnauthenticated,
		"TOKEN_EXPIRED": client.ErrUnauthenticated, "CERTIFICATE_EXPIRED": client.ErrUnauthenticated,
		"CLIENT_UNKNOWN": client.ErrUnauthenticated, "IDENTITY_WITHDRAWN": client.ErrUnauthenticated,
	} {
		wantError(t, client.FromStatus(refusal(codes.Unknown, reason)), want)
	}
	if r := client.Reason(&client.LostError{Err: client.ErrBacklog}); r != "LOCK_LOST" {
		t.Errorf("a lost lock has the reason %q", r)
	}
	for _, limit := range []uint32{0, 5} {
		st, _ := status.New(codes.FailedPrecondition, "no").WithDetails(&errdetails.ErrorInfo{
			Domain: "lockd.io", Reason: "LOCK_CONFIG_MISMATCH", Metadata: map[string]string{"limit": fmt.Sprint(limit)},
		})
		err := client.FromStatus(st.Err())
		wantError(t, err, client.ErrLimitMismatch)
		if mismatch, ok := errors.AsType[*client.LimitError](err); !ok || mismatch.Limit != limit ||
			errors.Is(err, client.ErrKindMismatch) || client.Reason(err) != "LOCK_CONFIG_MISMATCH" {
			t.Errorf("got %v", err)
		}
	}
}

// A right that is missing is named, and the reason is told whether or not the server said more.
func TestForbidden(t *testing.T) {
	st, _ := status.New(codes.PermissionDenied, "no").WithDetails(&errdetails.ErrorInfo{
		Domain: "lockd.io", Reason: "FORBIDDEN",
		Metadata: map[string]string{"client": "ci", "right": "lock", "name": "prod:x"},
	})
	for _, err := range []error{client.FromStatus(st.Err()), client.ErrForbidden} {
		wantError(t, err, client.ErrForbidden, client.ErrDenied)
		if got := client.Reason(err); got != "FORBIDDEN" {
			t.Errorf("%v: got the reason %q", err, got)
		}
	}
	missing, ok := errors.AsType[*client.ForbiddenError](client.FromStatus(st.Err()))
	if !ok || *missing != (client.ForbiddenError{Client: "ci", Right: "lock", Name: "prod:x"}) ||
		missing.Error() != `the client "ci" of the clients file may not lock "prod:x"` {
		t.Errorf("got %v", missing)
	}
}

func TestErrorsWithoutAReason(t *testing.T) {
	rows := map[codes.Code]error{
		codes.Unavailable: client.ErrUnavailable, codes.Unauthenticated: client.ErrUnauthenticated,
		codes.Unimplemented: client.ErrUnsupported, codes.DeadlineExceeded: client.ErrUnavailable,
	}
	for code, want := range rows {
		wantError(t, client.FromStatus(status.Error(code, "text")), want)
	}
	if err := client.FromStatus(nil); err != nil {
		t.Error(err)
	}
	if r := client.Reason(os.ErrNotExist); r != "" {
		t.Errorf("a reason %q for somebody else's error", r)
	}
}
