package grpcapi

import (
	"crypto/tls"
	"errors"
	"io"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lockd-io/lockd/internal/inbound"
	"github.com/lockd-io/lockd/internal/observe"
)

// speak is the option for TLS at an address; without a tls.Config it does nothing. The handshake lets in whoever has a
// good certificate. Who that is, authenticator.identify finds in the call's peer.AuthInfo, a credentials.TLSInfo.
func speak(with *tls.Config, endpoint string, log *zap.Logger, m *metrics, in *inbound.Intake) grpc.ServerOption {
	if with == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.Creds(&telling{
		TransportCredentials: credentials.NewTLS(with),
		log:                  log.With(zap.String(observe.KeyEndpoint, endpoint)),
		failed:               m.handshakes.WithLabelValues(endpoint),
		intake:               in,
	})
}

// telling logs and counts connections whose TLS handshake failed. gRPC does not report them.
type telling struct {
	credentials.TransportCredentials
	log      *zap.Logger
	failed   prometheus.Counter
	logLimit observe.LogLimiter
	intake   *inbound.Intake // bounds what is said on the connections
}

// ServerHandshake is for package grpc.
func (t *telling) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := t.TransportCredentials.ServerHandshake(raw)
	if err != nil && !errors.Is(err, io.EOF) { // a client that says nothing at all is a probe of the port
		t.failed.Inc()
		t.logLimit.Warn(t.log, "a connection was not made: its TLS handshake failed",
			zap.Stringer(observe.KeyPeer, raw.RemoteAddr()), zap.NamedError(observe.KeyCause, err))
	}
	if err != nil {
		return conn, info, err
	}
	return t.intake.Watch(conn), info, nil
}

// Clone is for package grpc. It returns t, because counter and log are those of the address.
func (t *telling) Clone() credentials.TransportCredentials { return t }
