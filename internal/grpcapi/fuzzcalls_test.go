package grpcapi_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/security"
)

// Of the tokens "mine" and "theirs".
const twoTeams = `clients:
- name: mine
  token_sha256: ["3fd30542fe3f61b14bd4a4b2dc0b6fb30fa6f63ebce52dd1778aaa8c4dc02cff"]
  lock: ["mine:*"]
- name: theirs
  token_sha256: ["4c55a8552a2c7261f61f798c2265e6f13358f326ae5b934096ff16bd15e62c33"]
  lock: ["theirs:*"]
`

// FuzzCall makes unary calls of all methods with whatever decodes, as a client beside another one: the server must
// stand, answer soon, and neither do nor show what is not for this client.
func FuzzCall(f *testing.F) {
	methods := unaryMethods(f)
	for i := range methods {
		for _, m := range []proto.Message{
			&lockdv1.AcquireRequest{Name: "theirs:1", Lease: seconds(1)}, &lockdv1.GetRequest{Name: "mine:1"},
			&lockdv1.CanRequest{Verb: "force", Name: "theirs:1"}, &lockdv1.ListHoldsRequest{},
		} {
			raw, err := proto.Marshal(m)
			must(f, err)
			f.Add(byte(i), raw)
		}
	}
	s := startAsTeams(f)
	held, err := lockdv1.NewLockServiceClient(s.conn).Acquire(as("theirs"), &lockdv1.AcquireRequest{
		Name: "theirs:1", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Lease: seconds(3600),
		Annotation: "theirs:1", ClientName: "theirs:1",
	})
	must(f, err)
	f.Fuzz(func(t *testing.T, n byte, raw []byte) {
		method := methods[int(n)%len(methods)]
		req, resp := messageOf(t, method.Input()), messageOf(t, method.Output())
		if proto.Unmarshal(raw, req) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(as("mine"), 5*time.Second)
		defer cancel()
		err := s.conn.Invoke(ctx, "/"+string(method.Parent().FullName())+"/"+string(method.Name()), req, resp)
		switch code := status.Code(err); {
		case code == codes.Internal || code == codes.Unknown || ctx.Err() != nil && !waits(req):
			t.Fatalf("%s(%v): %v", method.Name(), req, err)
		case err == nil && method.Parent().Name() == "AdminService":
			t.Fatalf("%s(%v): %v", method.Name(), req, resp)
		}
		asked := strings.Contains(prototext.Format(req), "theirs")
		if text := prototext.Format(resp); !asked && (strings.Contains(text, "theirs") ||
			strings.Contains(text, held.GetGranted().GetLeaseId())) {
			t.Fatalf("%s(%v) shows %s", method.Name(), req, text)
		}
	})
}

func waits(m proto.Message) bool {
	r, ok := m.(*lockdv1.AcquireRequest)
	return ok && r.GetWait() != nil
}

// as is a call of a client.
func as(token string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+token)
}

// startAsTeams starts a server for two teams.
func startAsTeams(t testing.TB) *server {
	path := filepath.Join(t.TempDir(), "clients.yaml")
	must(t, os.WriteFile(path, []byte(twoTeams), 0o600))
	guard, err := security.Open(security.Config{File: path}, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	t.Cleanup(guard.Close)
	s := startWith(t, zap.NewNop(), func(*broker.Config) {}, nil, func(c *grpcapi.Config) { c.Guard = guard })
	s.b.Tenants().Allow(guard.Allowances())
	return s
}

// unaryMethods are those of all services.
func unaryMethods(t testing.TB) (all []protoreflect.MethodDescriptor) {
	for _, name := range []protoreflect.FullName{
		"lockd.v1.LockService", "lockd.v1.InspectService", "lockd.v1.AdminService",
	} {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		must(t, err)
		methods := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			all = append(all, methods.Get(i))
		}
	}
	return all
}

func messageOf(t testing.TB, d protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	must(t, err)
	return kind.New().Interface()
}
