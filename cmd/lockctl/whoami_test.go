package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

// strict is a server that knows the client ci by its token, which may lock "ci:*" only.
type strict struct {
	lockdv1.UnimplementedInspectServiceServer
	lockdv1.UnimplementedLockServiceServer
}

const mayNot = `the client "ci" of the clients file may not lock "prod:x"`

func missingRight() map[string]string {
	return map[string]string{"client": "ci", "right": "lock", "name": "prod:x"}
}

func (strict) WhoAmI(ctx context.Context, _ *lockdv1.WhoAmIRequest) (*lockdv1.WhoAmIResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if !slices.Equal(md.Get("authorization"), []string{"Bearer secret"}) {
		return nil, detailed(grpccodes.Unauthenticated, "credentials are needed", &errdetails.ErrorInfo{
			Domain: "lockd.io", Reason: "NO_CREDENTIALS",
		})
	}
	return &lockdv1.WhoAmIResponse{
		Client: "ci", Credential: "token", ExpiresIn: durationpb.New(5 * time.Minute), Lock: []string{"ci:*", "rates"},
		Admin: []string{"drain"}, Replica: "r1", Peer: "10.0.0.1:5",
		Quotas: []*lockdv1.QuotaUse{{Subject: "locks", Limit: 5000, Used: 3}},
	}, nil
}

func (strict) Can(_ context.Context, r *lockdv1.CanRequest) (*lockdv1.CanResponse, error) {
	if strings.HasPrefix(r.GetName(), "ci:") || r.GetVerb() == "drain" {
		return &lockdv1.CanResponse{Allowed: true}, nil
	}
	return &lockdv1.CanResponse{Failure: &lockdv1.Failure{
		Code: int32(grpccodes.PermissionDenied), Message: mayNot, Reason: "FORBIDDEN", Metadata: missingRight(),
	}}, nil
}

func (strict) Acquire(context.Context, *lockdv1.AcquireRequest) (*lockdv1.AcquireResponse, error) {
	return nil, detailed(grpccodes.PermissionDenied, mayNot, &errdetails.ErrorInfo{
		Domain: "lockd.io", Reason: "FORBIDDEN", Metadata: missingRight(),
	})
}

// Get, Extend and Release are for somebody who has a read lock of a name that he may look at no more.
func (strict) Get(context.Context, *lockdv1.GetRequest) (*lockdv1.GetResponse, error) {
	return nil, detailed(grpccodes.PermissionDenied, mayNot, &errdetails.ErrorInfo{
		Domain: "lockd.io", Reason: "FORBIDDEN", Metadata: missingRight(),
	})
}

func (strict) Extend(_ context.Context, r *lockdv1.ExtendRequest) (*lockdv1.ExtendResponse, error) {
	if err := notOfKind(r.GetKind()); err != nil {
		return nil, err
	}
	return &lockdv1.ExtendResponse{Lease: &lockdv1.Lease{Name: r.GetName(), LeaseId: r.GetLeaseId()}}, nil
}

func (strict) Release(_ context.Context, r *lockdv1.ReleaseRequest) (*lockdv1.ReleaseResponse, error) {
	return &lockdv1.ReleaseResponse{}, notOfKind(r.GetKind())
}

func notOfKind(k lockdv1.LockKind) error {
	if k == lockdv1.LockKind_LOCK_KIND_READ {
		return nil
	}
	reason := "LOCK_CONFIG_MISMATCH"
	if k == lockdv1.LockKind_LOCK_KIND_WRITE {
		reason = "LOCK_NOT_HELD"
	}
	return detailed(grpccodes.FailedPrecondition, "it is not", &errdetails.ErrorInfo{Domain: "lockd.io", Reason: reason})
}

func detailed(code grpccodes.Code, text string, info *errdetails.ErrorInfo) error {
	st, err := status.New(code, text).WithDetails(info)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// serveStrict runs one, and writes the token of ci into a file.
func serveStrict(t *testing.T) (at, token string) {
	t.Helper()
	token = filepath.Join(t.TempDir(), "token")
	harness.Must(t, os.WriteFile(token, []byte("secret\n"), 0o600))
	return serve(t, func(s *grpc.Server) {
		lockdv1.RegisterInspectServiceServer(s, strict{})
		lockdv1.RegisterLockServiceServer(s, strict{})
	}), token
}

func TestWhoAmI(t *testing.T) {
	t.Parallel()
	at, token := serveStrict(t)
	r := call(t, "--addr", at, "--token-file", token, "whoami", "-o", "json")
	v := parse(t, r.stdout, "client", "credential", "expires_in_ms", "lock", "look", "deny", "admin", "quotas", "replica",
		"peer")
	names, quotas := v["lock"].([]any), v["quotas"].([]any)
	if r.code != 0 || v["client"] != "ci" || v["expires_in_ms"] != 300_000.0 || len(names) != 2 || names[0] != "ci:*" ||
		len(v["deny"].([]any)) != 0 || quotas[0].(map[string]any)["used"] != 3.0 {
		t.Errorf("got %+v", r)
	}
	text := callWith(t, []string{"LOCKD_TOKEN_FILE=" + token}, "--addr", at, "whoami").stdout
	for _, line := range []string{
		"client      ci\n", "expires     in 5m\n", "lock        ci:*, rates\n", "deny        -\n", "locks  3     5000\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("got\n%s, want %q", text, line)
		}
	}
	call(t, "--addr", at, "whoami").want(t, exitDenied, "", "NO_CREDENTIALS: whoami: credentials are needed; show a token")
	call(t, "--token-file", "nowhere", "whoami").want(t, exitUsage, "", "the token file: stat nowhere")
}

func TestCan(t *testing.T) {
	t.Parallel()
	at, _ := serveStrict(t)
	call(t, "--addr", at, "can", "lock", "ci:x").want(t, 0, "yes\n", "")
	call(t, "--addr", at, "can", "drain").want(t, 0, "yes\n", "")
	call(t, "--addr", at, "can", "lock", "prod:x").want(t, exitDenied, "no: "+mayNot+"\n", "")
	call(t, "--addr", at, "can", "lock", "prod:x", "-o", "json").want(t, exitDenied,
		`{"verb":"lock","name":"prod:x","allowed":false,"client":"ci","right":"lock",`+
			`"error":"the client \"ci\" of the clients file may not lock \"prod:x\""}`+"\n", "")
}

// Whoever is refused is told which right is missing, and how to see what there is.
func TestForbidden(t *testing.T) {
	t.Parallel()
	at, _ := serveStrict(t)
	r := call(t, "--addr", at, "acquire", "prod:x", "--lease", "1s")
	r.want(t, exitDenied, "", `FORBIDDEN: acquire "prod:x": `+mayNot+"; lockctl whoami shows what it may\n")
}

// A lease outlives the right to look at its name: it can be extended and released, of whatever kind it is.
func TestLeaseOfANameThatMayNotBeLookedAt(t *testing.T) {
	t.Parallel()
	at, _ := serveStrict(t)
	if r := call(t, "--addr", at, "extend", "prod:x", "id", "--lease", "1m"); r.code != 0 {
		t.Errorf("got %+v", r)
	}
	call(t, "--addr", at, "release", "prod:x", "id").want(t, 0, "", "")
	call(t, "--addr", at, "release", "prod:x", "id", "--kind", "write").want(t, exitFailed, "", "LOCK_NOT_HELD: ")
}
