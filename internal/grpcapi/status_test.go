package grpcapi_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lockd-io/lockd/internal/grpcapi"
)

// sentinels are the names of the errors of broker and store, read from the source, so that none can be forgotten.
func sentinels(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, path := range []string{"../session/errors.go", "../lock/errors.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		must(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for _, name := range spec.Names {
					if strings.HasPrefix(name.Name, "Err") {
						names = append(names, name.Name)
					}
				}
			}
			return true
		})
	}
	if len(names) < 15 {
		t.Fatalf("found only %v", names)
	}
	return names
}

func TestEachBrokerErrorHasARow(t *testing.T) {
	rows := grpcapi.TableErrors()
	if got, want := len(rows), len(sentinels(t)); got != want {
		t.Errorf("the table has %d rows, the broker and its words %d errors: %v", got, want, sentinels(t))
	}
	for _, err := range rows {
		st := status.Convert(grpcapi.ToStatus(fmt.Errorf("wrapped: %w", err)))
		if st.Code() == codes.Internal || st.Code() == codes.OK || reasonOf(st) == "no ErrorInfo" {
			t.Errorf("%v: got %v %s", err, st.Code(), reasonOf(st))
		}
	}
}

func TestWhatIsToldOfAnError(t *testing.T) {
	for err, want := range map[error]struct {
		reason     string
		key, value string // of the metadata, if there is any
	}{
		lock.ErrNoQuorum:           {"NO_QUORUM", "", ""}, // what only several stores answer is told from what any may
		lock.ErrKindUnsupported:    {"KIND_UNSUPPORTED", "", ""},
		lock.ErrNotReplicated:      {"BACKEND_UNAVAILABLE", "cause", "NOT_REPLICATED"},
		&lock.LimitError{}:         {"LOCK_CONFIG_MISMATCH", "limit", "0"},
		&lock.LimitError{Limit: 5}: {"LOCK_CONFIG_MISMATCH", "limit", "5"},
		lock.ErrKindMismatch:       {"LOCK_CONFIG_MISMATCH", "", ""}, // in use for something else
		session.ErrUpgrade:         {"LOCK_UPGRADE", "", ""},
		// An unknown outcome stays unknown.
		errors.Join(lock.ErrUnavailable, lock.ErrNotHeld, lock.ErrOutcomeUnknown): {"OUTCOME_UNKNOWN", "", ""},
	} {
		st := wantReason(t, grpcapi.ToStatus(fmt.Errorf("secret: %w", err)), want.reason)
		data := st.Details()[0].(*errdetails.ErrorInfo).GetMetadata()
		if data[want.key] != want.value || want.key == "" && data != nil || strings.Contains(st.Message(), "secret") {
			t.Errorf("%v: got %v", err, st)
		}
	}
}

func TestADeadlockIsToldWithItsCircle(t *testing.T) {
	circle := deadlock.Deadlock{Omitted: 3, Members: []deadlock.Member{{
		Owner: "s:#1", Want: deadlock.Want{Name: "door", Kind: lock.Fair}, Age: time.Second, HeldBy: "r:#2", Fence: 7,
		About: deadlock.About{
			Session: "s", Client: "billing", Peer: "host:1", Replica: "east", Annotation: "nightly", Fails: true,
		},
	}}}
	st := wantReason(t, grpcapi.ToStatus(fmt.Errorf("acquire: %w", &deadlock.Error{Deadlock: circle})), "DEADLOCK")
	want := &lockdv1.Deadlock{Omitted: 3, Members: []*lockdv1.DeadlockMember{{
		Name: "door", Kind: lockdv1.LockKind_LOCK_KIND_FAIR, Owner: "s:#1", SessionId: "s", ClientName: "billing",
		Peer: "host:1", Replica: "east", Annotation: "nightly", Age: seconds(1), HeldBy: "r:#2", Fence: 7, Fails: true,
	}}}
	if got, ok := st.Details()[1].(*lockdv1.Deadlock); !ok || !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", st.Details(), want)
	}
}

func TestWhatHasNoRowTellsNothing(t *testing.T) {
	st := status.Convert(grpcapi.ToStatus(errors.New("secret of the store")))
	if st.Code() != codes.Internal || strings.Contains(st.Message(), "secret") {
		t.Errorf("got %v", st)
	}
	st = status.Convert(grpcapi.ToStatus(fmt.Errorf("secret of the store: %w", lock.ErrUnavailable)))
	if strings.Contains(st.Message(), "secret") {
		t.Errorf("got %v", st)
	}
	if st := status.Convert(grpcapi.ToStatus(context.Canceled)); st.Code() != codes.Canceled {
		t.Errorf("got %v", st)
	}
	if grpcapi.ToStatus(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestAFailureTellsTheSameAsTheStatus(t *testing.T) {
	errs := append(grpcapi.TableErrors(), context.Canceled, errors.New("secret of the store"),
		status.Error(codes.DataLoss, "of gRPC"),
		&lock.LimitError{Limit: 5}, &lock.InvalidError{Reason: "INVALID_NAME", Field: "name", Detail: "is empty"},
		&session.QuotaError{Subject: "locks", Limit: 7}, &deadlock.Error{Deadlock: deadlock.Deadlock{Omitted: 3}})
	for _, err := range errs {
		err = fmt.Errorf("acquire: %w", err)
		f, st := grpcapi.ToFailure(err), status.Convert(grpcapi.ToStatus(err))
		told := &lockdv1.Failure{Code: f.GetCode(), Message: f.GetMessage()}
		if codes.Code(f.GetCode()) != st.Code() || f.GetMessage() != st.Message() { //nolint:gosec // at most 16
			t.Errorf("%v: got %v, the status is %v", err, f, st)
		}
		for _, d := range st.Details() {
			switch d := d.(type) {
			case *errdetails.ErrorInfo:
				told.Reason, told.Metadata = d.GetReason(), d.GetMetadata()
			case *errdetails.RetryInfo:
				told.RetryAfter = d.GetRetryDelay()
			case *lockdv1.Deadlock:
				told.Deadlock = d
			case *errdetails.BadRequest:
				if field := d.GetFieldViolations()[0].GetField(); f.GetMetadata()["field"] != field {
					t.Errorf("%v: got %v, want the field %s", err, f, field)
				}
			}
		}
		if !proto.Equal(f, told) {
			t.Errorf("%v: got %v, the status tells %v", err, f, told)
		}
	}
}
