package grpcapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/stats"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/inbound"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/security"
)

// How many bytes a client may send ahead of what is read, on a stream and on a connection. Without these values gRPC
// lets the windows grow up to 16 MiB, which a client that sends and does not read would fill.
const (
	streamWindow = 128 << 10
	connWindow   = 1 << 20
)

// ioBuffer is the size of a connection's read and write buffers. An idle session costs little with it; a busy one
// sends its messages in batches and loses nothing.
const ioBuffer = 8 << 10

// connectTimeout bounds the time until a connection speaks, TLS included: a client of gRPC waits for as long.
// metadataBytes bounds the metadata of a call, which stays in memory for as long as the call.
const (
	connectTimeout = 20 * time.Second
	metadataBytes  = 16 << 10
)

// Config is what a Server is told at its start. All fields but TLS, AdminTLS, Examine, Spans, Guard and Gate are
// required.
type Config struct {
	MaxConcurrentStreams uint32 // of one connection; 0 = no bound
	Reflection           bool
	// KeepaliveTime and KeepaliveTimeout are for the server's pings, KeepaliveMinTime for what it tolerates from
	// clients.
	KeepaliveTime    time.Duration
	KeepaliveTimeout time.Duration
	KeepaliveMinTime time.Duration
	// OpenTimeout is how long a stream may live without Open.
	OpenTimeout time.Duration
	// DrainWindow is used by AdminService.Drain when it is told no other.
	DrainWindow time.Duration
	// Version and Store are told by GetStatus and Examine: which lockd this is, and the configured kind of store.
	Version, Store string
	// TLS and AdminTLS are for clients and for operators; nil: they are spoken to in clear text.
	TLS, AdminTLS *tls.Config
	// Examine checks whether this replica and its store are as they should be; nil if nothing does.
	Examine func(ctx context.Context) []lock.Finding
	// Spans has unary calls traced; nil: they are not.
	Spans trace.TracerProvider
	// Guard says who may do what; nil: everybody may do everything.
	Guard *security.Guard
	// Gate is where requests of sessions wait when the store has too much to do; nil if it never has.
	Gate *gate.Gate
}

// Server serves clients at one address: SessionService, LockService, InspectService and, to clients of a clients file,
// AdminService; and operators at another one: AdminService and InspectService. Both have health and reflection. What
// clients call by HTTP is served by its Local.
type Server struct {
	clients   *grpc.Server
	operators *grpc.Server
	local     *Local
	health    *health.Server
	streams   sync.WaitGroup // the goroutines that read and write streams

	intake              *inbound.Intake
	secure, secureAdmin bool // TLS is spoken there

	mu       sync.Mutex // held while draining begins or ends; before Broker.mu
	stopping bool       // for good
}

// New builds a server; Serve and ServeAdmin run it.
func New(cfg Config, b *broker.Broker, log *zap.Logger, reg prometheus.Registerer) *Server {
	log = log.Named("grpcapi")
	m := newMetrics(reg)
	codec := newFrameCodec(b.Limits().FrameBytes, unaryBytes(b.Limits()))
	in := inbound.New(bounds(b.Limits().FrameBytes), log, reg)
	s := &Server{health: health.NewServer(), intake: in, secure: cfg.TLS != nil, secureAdmin: cfg.AdminTLS != nil}
	auth := authenticator{cfg.Guard, in}
	spans, call := traceCalls(cfg.Spans), unary(b, false, auth, log, m)
	clients := append(serverOptions(cfg, codec, call), speak(cfg.TLS, "listen", log, m, in))
	if spans != nil {
		clients = append(clients, grpc.StatsHandler(spans))
	}
	s.clients, s.local = grpc.NewServer(clients...), newLocal(b, codec, call, spans)
	s.operators = grpc.NewServer(append(serverOptions(cfg, codec, unary(b, true, auth, log, m)),
		speak(cfg.AdminTLS, "admin_listen", log, m, in))...)
	lockdv1.RegisterSessionServiceServer(s.clients,
		&sessionService{cfg: cfg, b: b, log: log, metrics: m, auth: auth, workers: &s.streams})
	for _, g := range []grpc.ServiceRegistrar{s.clients, s.local} {
		lockdv1.RegisterLockServiceServer(g, &lockService{b: b})
	}
	here := replica{b, cfg, time.Now()}
	admin := &adminService{replica: here, server: s, log: log, examining: make(limits.Slots, limits.Examinations)}
	for _, g := range []grpc.ServiceRegistrar{s.clients, s.local, s.operators} {
		lockdv1.RegisterAdminServiceServer(g, admin) // see admit
		lockdv1.RegisterInspectServiceServer(g, &inspectService{replica: here, operators: g == s.operators})
	}
	for _, g := range []*grpc.Server{s.clients, s.operators} {
		grpc_health_v1.RegisterHealthServer(g, s.health)
		if cfg.Reflection {
			reflection.Register(g)
		}
		m.beginAtZero(g.GetServiceInfo())
	}
	s.health.SetServingStatus(lockdv1.SessionService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	s.health.SetServingStatus(lockdv1.LockService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	return s
}

func serverOptions(cfg Config, codec frameCodec, unary grpc.UnaryServerInterceptor) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(grace * codec.limit),
		grpc.ForceServerCodecV2(codec),
		grpc.MaxConcurrentStreams(cfg.MaxConcurrentStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.MaxHeaderListSize(metadataBytes),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.KeepaliveTime, Timeout: cfg.KeepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime:             cfg.KeepaliveMinTime,
			PermitWithoutStream: true,
		}),
		grpc.UnaryInterceptor(unary),
	}
}

// traceCalls has otelgrpc make a span of each call of LockService, below its caller's; nil if nothing is traced. A
// session is one call for all of its life, so each request names its caller's span itself.
func traceCalls(spans trace.TracerProvider) stats.Handler {
	if spans == nil {
		return nil
	}
	prefix := "/" + lockdv1.LockService_ServiceDesc.ServiceName + "/"
	return otelgrpc.NewServerHandler(
		otelgrpc.WithTracerProvider(spans), otelgrpc.WithPropagators(propagation.TraceContext{}),
		otelgrpc.WithFilter(func(i *stats.RPCTagInfo) bool { return strings.HasPrefix(i.FullMethodName, prefix) }),
	)
}

// Serve accepts connections of clients until Stop, which may have come before. It takes over the listener.
func (s *Server) Serve(lis net.Listener) error { return s.serve(s.clients, lis, s.secure) }

// ServeAdmin is Serve for operators.
func (s *Server) ServeAdmin(lis net.Listener) error { return s.serve(s.operators, lis, s.secureAdmin) }

// serve bounds connections in clear text. With TLS they are bounded after the handshake.
func (s *Server) serve(g *grpc.Server, lis net.Listener, secure bool) error {
	if !secure {
		lis = listener{lis, s.intake}
	}
	if err := g.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve grpc: %w", err)
	}
	return nil
}

// unaryBytes bounds the message of a unary call: it has room for twice the texts that limits allow, and some more.
func unaryBytes(l limits.Limits) int {
	const spare = 16 << 10
	return spare + 2*min(l.NameBytes+l.HolderBytes+l.AnnotationBytes, math.MaxInt32/4)
}

// bounds limit messages that have not fully arrived. A connection has room for several of the largest ones, which
// resume sessions, and for a call without its message on each of its streams.
func bounds(frameBytes int) inbound.Limits {
	const least, messages = 32 << 20, 4
	connection := max(least, messages*grace*int64(frameBytes))
	return inbound.Limits{Connection: connection, Address: 2 * connection, All: 4 * connection, Time: connectTimeout}
}

// NotServing makes health checks say NOT_SERVING for good: from now on nobody can take a Drain back.
func (s *Server) NotServing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
	s.health.Shutdown()
}

// Stop waits until all calls have ended or ctx ends, then cuts what is left. Streams end when the broker ends their
// sessions.
func (s *Server) Stop(ctx context.Context) {
	var stops sync.WaitGroup
	for _, g := range []*grpc.Server{s.clients, s.operators} {
		stops.Go(func() { stop(ctx, g) })
	}
	stops.Wait()
	s.streams.Wait()
}

func stop(ctx context.Context, g *grpc.Server) {
	stopped := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		g.Stop()
		<-stopped
	}
}
