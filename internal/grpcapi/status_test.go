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
		if err != nil {
			t.Fatal(err)
		}
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

// What only several stores answer is told from what any may: a client can take another kind, or wait for the others.
func TestWhatAMajorityRefusesHasReasonsOfItsOwn(t *testing.T) {
	for err, want := range map[error]struct {
		reason string
		code   codes.Code
	}{
		lock.ErrNoQuorum:        {"NO_QUORUM", codes.Unavailable},
		lock.ErrKindUnsupported: {"KIND_UNSUPPORTED", codes.FailedPrecondition},
	} {
		st := status.Convert(grpcapi.ToStatus(fmt.Errorf("acquire: %w", err)))
		if st.Code() != want.code || reasonOf(st) != want.reason {
			t.Errorf("%v: got %v %s, want %+v", err, st.Code(), reasonOf(st), want)
		}
	}
}

func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	err := errors.Join(lock.ErrUnavailable, lock.ErrNotHeld, lock.ErrOutcomeUnknown)
	if got := reasonOf(status.Convert(grpcapi.ToStatus(err))); got != "OUTCOME_UNKNOWN" {
		t.Errorf("got %s", got)
	}
}

func TestAGrantThatWasNotReplicatedIsUnavailableWithItsCause(t *testing.T) {
	st := status.Convert(grpcapi.ToStatus(fmt.Errorf("acquire: %w", lock.ErrNotReplicated)))
	if got := reasonOf(st); got != "BACKEND_UNAVAILABLE" {
		t.Errorf("got %s", got)
	}
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetMetadata()["cause"] != "NOT_REPLICATED" {
			t.Errorf("got %v", info)
		}
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
