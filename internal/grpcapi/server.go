package grpcapi

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

// ioBuffer is the size of a connection's read and write buffers. An idle session costs little with it; a busy one
// sends its messages in batches and loses nothing.
const ioBuffer = 8 << 10

// Config is what a Server is told at its start. All fields are required.
type Config struct {
	// FrameBytes bounds a message on the wire.
	FrameBytes           int
	MaxConcurrentStreams uint32 // of one connection; 0 = no bound
	Reflection           bool
	// KeepaliveTime and KeepaliveTimeout are for the server's pings, KeepaliveMinTime for what it tolerates from clients.
	KeepaliveTime    time.Duration
	KeepaliveTimeout time.Duration
	KeepaliveMinTime time.Duration
	// OpenTimeout is how long a stream may live without Open.
	OpenTimeout time.Duration
	// DrainWindow is used by AdminService.Drain when it is told no other.
	DrainWindow time.Duration
}

// Server serves SessionService, LockService, InspectService, AdminService, health and reflection.
type Server struct {
	grpc    *grpc.Server
	health  *health.Server
	streams sync.WaitGroup // the goroutines that read streams
}

// New builds a server; Serve runs it.
func New(cfg Config, b *broker.Broker, log *zap.Logger, reg prometheus.Registerer) *Server {
	log = log.Named("grpcapi")
	m := newMetrics(reg)
	s := &Server{health: health.NewServer()}
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(grace*cfg.FrameBytes),
		grpc.ForceServerCodecV2(newFrameCodec(cfg.FrameBytes)),
		grpc.MaxConcurrentStreams(cfg.MaxConcurrentStreams),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: cfg.KeepaliveTime, Timeout: cfg.KeepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: cfg.KeepaliveMinTime, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(m.unary(log)),
	)
	lockdv1.RegisterSessionServiceServer(s.grpc, &sessionService{cfg: cfg, b: b, log: log, metrics: m, readers: &s.streams})
	lockdv1.RegisterLockServiceServer(s.grpc, &lockService{b: b})
	lockdv1.RegisterInspectServiceServer(s.grpc, &inspectService{b: b})
	lockdv1.RegisterAdminServiceServer(s.grpc, &adminService{b: b, drainWindow: cfg.DrainWindow, notServing: s.NotServing})
	grpc_health_v1.RegisterHealthServer(s.grpc, s.health)
	s.health.SetServingStatus(lockdv1.SessionService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	s.health.SetServingStatus(lockdv1.LockService_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	if cfg.Reflection {
		reflection.Register(s.grpc)
	}
	return s
}

// Serve accepts connections until Stop. It takes over the listener.
func (s *Server) Serve(lis net.Listener) error {
	if err := s.grpc.Serve(lis); err != nil {
		return fmt.Errorf("serve grpc: %w", err)
	}
	return nil
}

// NotServing tells those who ask for the server's health to send nobody here any more.
func (s *Server) NotServing() { s.health.Shutdown() }

// Stop waits until all calls have ended or ctx ends, then cuts what is left. Streams end when the broker ends their
// sessions.
func (s *Server) Stop(ctx context.Context) {
	stopped := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		s.grpc.Stop()
		<-stopped
	}
	s.streams.Wait()
}
