package grpcapi_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/brokertest"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/internal/watchdog"
	"github.com/lockd-io/lockd/test/harness"
)

// server is a lockd without sockets and Redis.
type server struct {
	t     testing.TB
	lis   *bufconn.Listener
	conn  *grpc.ClientConn
	admin *grpc.ClientConn // at the address for operators
	srv   *grpcapi.Server
	b     *broker.Broker
}

// inBubble runs a test against a server in a bubble, where time passes only while everybody sleeps.
func inBubble(t *testing.T, test func(s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(start(t)) })
}

func start(t testing.TB) *server { return startLogging(t, zap.NewNop()) }

func startLogging(t testing.TB, log *zap.Logger) *server {
	return startWith(t, log, func(*broker.Config) {}, nil)
}

func startGuarded(
	t testing.TB, log *zap.Logger, change func(*broker.Config), g *gate.Gate, guard *security.Guard,
) *server {
	return startWith(t, log, change, g, func(c *grpcapi.Config) { c.Guard = guard })
}

func startWith(
	t testing.TB, log *zap.Logger, change func(*broker.Config), g *gate.Gate, further ...func(*grpcapi.Config),
) *server {
	reg := prometheus.NewRegistry()
	store := memstore.New()
	dog := watchdog.New[*broker.Lease](store, log, reg)
	cfg := brokertest.Config()
	cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession, cfg.Limits.WatchesPerSession = 50, 50, 5
	cfg.Limits.QueueLength, cfg.Limits.NamesPerAcquire, cfg.Limits.SessionsPerAddress = 1000, 4, 100
	change(&cfg)
	b := broker.New(cfg, store, dog, log, reg)
	for b.Ready() != nil { // the store was not asked yet
		runtime.Gosched()
	}
	service := grpcapi.Config{
		Reflection: true, OpenTimeout: 5 * time.Second, DrainWindow: time.Second, Version: "v0",
		Store:         "memory",
		KeepaliveTime: 20 * time.Second, KeepaliveTimeout: 10 * time.Second, KeepaliveMinTime: 10 * time.Second,
		Gate: g,
	}
	for _, change := range further {
		change(&service)
	}
	srv := grpcapi.New(service, b, log, reg)
	b.Review(service.Guard.EndsHolds(), service.Guard.Allowances())
	lis, adminLis := bufconn.Listen(1<<20), bufconn.Listen(1<<20)
	served := make(chan error, 2)
	go func() { served <- srv.Serve(lis) }()
	go func() { served <- srv.ServeAdmin(adminLis) }()
	conn, admin := dial(t, lis.DialContext), dial(t, adminLis.DialContext)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = admin.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.Close(ctx)
		srv.Stop(ctx)
		for range 2 {
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		}
		dog.Close()
	})
	return &server{t: t, lis: lis, conn: conn, admin: admin, srv: srv, b: b}
}

func dial(
	t testing.TB, to func(context.Context) (net.Conn, error), more ...grpc.DialOption,
) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///bufconn", append(more,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return to(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))...)
	must(t, err)
	return conn
}

// stream is a client that works by hand.
type stream struct {
	t testing.TB
	lockdv1.SessionService_SessionClient
	cancel context.CancelFunc
	opened *lockdv1.Opened
}

// raw begins a stream without Open.
func (s *server) raw() *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	c, err := lockdv1.NewSessionServiceClient(s.conn).Session(ctx)
	must(s.t, err)
	return &stream{t: s.t, SessionService_SessionClient: c, cancel: cancel}
}

func (s *server) open(o *lockdv1.Open) *stream {
	s.t.Helper()
	c := s.raw()
	c.send(openWith(o))
	if c.opened = c.recv().GetOpened(); c.opened == nil {
		s.t.Fatal("want Opened as the first message")
	}
	return c
}

func (c *stream) send(m *lockdv1.SessionRequest) {
	c.t.Helper()
	if err := c.Send(m); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

func (c *stream) recv() *lockdv1.SessionResponse {
	c.t.Helper()
	m, err := c.Recv()
	if err != nil {
		c.t.Fatalf("recv: %v", err)
	}
	return m
}

type acq = lockdv1.Acquire

func acquire(id uint64, a *lockdv1.Acquire) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Acquire{Acquire: a}}
}

func (c *stream) take(id uint64, name string) *lockdv1.Granted {
	c.t.Helper()
	c.send(acquire(id, &lockdv1.Acquire{Name: name}))
	m := c.recv()
	if m.GetRequestId() != id || m.GetGranted() == nil {
		c.t.Fatalf("got %v, want a grant for %d", m, id)
	}
	return m.GetGranted()
}

// ask sends an Acquire and returns its first answer.
func (c *stream) ask(id uint64, a *acq) *lockdv1.SessionResponse {
	c.t.Helper()
	return c.call(acquire(id, a))
}

func release(id uint64, h *lockdv1.Hold, keep uint32) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
		Name: h.GetName(), Kind: h.GetKind(), Holder: h.GetHolder(), Fence: h.GetFence(), Keep: keep,
	}}}
}

func cancelOf(id, target uint64) *lockdv1.SessionRequest {
	m := &lockdv1.Cancel{TargetId: target}
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Cancel{Cancel: m}}
}

func watchOf(id uint64, name string) *lockdv1.SessionRequest {
	m := &lockdv1.Watch{Name: name}
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Watch{Watch: m}}
}

func limitOf(id uint64, name string, n uint32) *lockdv1.SessionRequest {
	m := &lockdv1.SetLimit{Name: name, Limit: n}
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_SetLimit{SetLimit: m}}
}

// call sends a request and returns its answer.
func (c *stream) call(m *lockdv1.SessionRequest) *lockdv1.SessionResponse {
	c.t.Helper()
	c.send(m)
	got := c.recv()
	if got.GetRequestId() != m.GetRequestId() {
		c.t.Fatalf("got %v, want the answer to %d", got, m.GetRequestId())
	}
	return got
}

// refuses begins a stream with an Open that must be refused, and returns the error.
func (s *server) refuses(o *lockdv1.Open) (*stream, error) {
	s.t.Helper()
	c := s.raw()
	c.send(openWith(o))
	return c, c.end()
}

// breaks ends the stream as if the connection broke.
func (c *stream) breaks() {
	c.cancel()
	_ = c.end()
	synctest.Wait()
}

// end reads the stream to its end and returns its error.
func (c *stream) end() error {
	for {
		if _, err := c.Recv(); err != nil {
			return err
		}
	}
}

func reasonOf(st *status.Status) string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			if info.GetDomain() != "lockd.io" {
				return "domain " + info.GetDomain()
			}
			return info.GetReason()
		}
	}
	return "no ErrorInfo"
}

// codeOf is the code that comes with a reason.
func codeOf(reason string) codes.Code {
	switch {
	case strings.HasPrefix(reason, "INVALID_"), reason == "NAME_RESERVED":
		return codes.InvalidArgument
	case strings.HasPrefix(reason, "QUOTA_"):
		return codes.ResourceExhausted
	}
	return map[string]codes.Code{
		"SESSION_NOT_OPEN": codes.FailedPrecondition, "SESSION_ALREADY_OPEN": codes.FailedPrecondition,
		"LOCK_CONFIG_MISMATCH": codes.FailedPrecondition, "LOCK_NOT_HELD": codes.FailedPrecondition,
		"LOCK_UPGRADE": codes.FailedPrecondition, "KIND_UNSUPPORTED": codes.FailedPrecondition,
		"FRAME_TOO_LARGE": codes.ResourceExhausted, "STREAM_BACKLOG": codes.ResourceExhausted,
		"NO_QUORUM": codes.Unavailable, "OUTCOME_UNKNOWN": codes.Unavailable, "BACKEND_UNAVAILABLE": codes.Unavailable,
		"DRAINING": codes.Unavailable, "SESSION_EXPIRED": codes.NotFound, "REQUEST_NOT_WAITING": codes.NotFound,
		"FENCE_STALE": codes.Aborted, "SUPERSEDED": codes.Aborted, "DEADLOCK": codes.Aborted,
		"SESSION_SILENT": codes.DeadlineExceeded, "UNIMPLEMENTED": codes.Unimplemented,
		"REQUEST_ID_REPEATED": codes.AlreadyExists, "ADMIN_ONLY": codes.PermissionDenied,
		"FORBIDDEN":    codes.PermissionDenied,
		"no ErrorInfo": codes.ResourceExhausted, // a word of gRPC itself
	}[reason]
}

// wantReason checks the reason of an error, and its code.
func wantReason(t testing.TB, err error, reason string) *status.Status {
	t.Helper()
	st := status.Convert(err)
	if reasonOf(st) != reason || st.Code() != codeOf(reason) {
		t.Errorf("got %v with %s, want %s", st, reasonOf(st), reason)
	}
	return st
}

func seconds(n float64) *durationpb.Duration {
	return durationpb.New(time.Duration(n * float64(time.Second)))
}

var must = harness.Must // ends the test at an error
