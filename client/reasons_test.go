package client_test

import (
	"os"
	"regexp"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/client"
)

// TestEveryReasonOfTheServerIsKnown reads the server's table, of which this package must not import anything.
func TestEveryReasonOfTheServerIsKnown(t *testing.T) {
	table, err := os.ReadFile("../internal/grpcapi/status.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`\{\w+\.Err\w+, codes\.\w+, "([A-Z_]+)"`).FindAllSubmatch(table, -1)
	if len(rows) < 15 {
		t.Fatalf("found %d rows in the server's table, has its form changed?", len(rows))
	}
	for _, row := range rows {
		reason := string(row[1])
		st, err := status.New(codes.Unknown, "text").WithDetails(&errdetails.ErrorInfo{Domain: "lockd.io", Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		mapped := client.FromStatus(st.Err())
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

func TestErrorsWithoutAReason(t *testing.T) {
	rows := map[codes.Code]error{
		codes.Unavailable: client.ErrUnavailable, codes.Unauthenticated: client.ErrDenied,
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
