package pipe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// Why a command was not sent.
var (
	ErrQueueFull    = errors.New("too many operations wait for Redis")
	ErrWaited       = errors.New("the operation waited too long for Redis and was not sent")
	ErrClosed       = errors.New("the store is closed")
	ErrNotConnected = errors.New("not connected to Redis")
)

// ErrOpTimeout is why an operation was given up that was sent, perhaps.
var ErrOpTimeout = errors.New("redis did not answer in time")

// NeverSent says whether an error came before anything was written to a connection.
func NeverSent(err error) bool {
	for _, before := range []error{
		redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
		ErrQueueFull, ErrWaited, ErrClosed, ErrNotConnected,
	} {
		if errors.Is(err, before) {
			return true
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	_, badCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, badHost := errors.AsType[x509.HostnameError](err)
	return badCert || noTLS || badHost
}
