package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/broker"
)

// verdicts says what an error reply of Redis means, by how it begins. The first that fits counts.
//
// Those that are ErrUnavailable or ErrStoreFull come either instead of running a script, or from the first write in it: Redis
// refuses no write of a script that has written. Those of LOCKDKIND come from the checks that scripts begin with. In both
// cases nothing was done. Any other error, such as a WRONGTYPE that no check found, may have come half-way.
var verdicts = []struct {
	begins string
	means  error
}{
	{"OOM ", broker.ErrStoreFull},
	{"LOCKDKIND ", broker.ErrKindMismatch}, // ours, see fence.lua
	{"READONLY ", broker.ErrUnavailable},
	{"LOADING ", broker.ErrUnavailable},
	{"MASTERDOWN ", broker.ErrUnavailable},
	{"CLUSTERDOWN ", broker.ErrUnavailable},
	{"TRYAGAIN ", broker.ErrUnavailable},
	{"MOVED ", broker.ErrUnavailable},
	{"ASK ", broker.ErrUnavailable},
	{"NOREPLICAS ", broker.ErrUnavailable},
	{"MISCONF ", broker.ErrUnavailable},
	{"BUSY ", broker.ErrUnavailable},
	{"NOSCRIPT ", broker.ErrUnavailable},
	{"NOAUTH ", broker.ErrUnavailable},
	{"WRONGPASS ", broker.ErrUnavailable},
	{"NOPROTO ", broker.ErrUnavailable},
	{"DENIED ", broker.ErrUnavailable},
	{"ERR max number of clients", broker.ErrUnavailable},
	{"ERR invalid password", broker.ErrUnavailable},
	{"ERR AUTH ", broker.ErrUnavailable},
	{"ERR Client sent AUTH", broker.ErrUnavailable},
	{"ERR DB index is out of range", broker.ErrUnavailable},
}

// meaning says what an error of go-redis means for the caller. When in doubt the outcome is unknown.
func meaning(err error) error {
	if neverSent(err) {
		return broker.ErrUnavailable
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return replyMeaning(reply.Error())
	}
	return broker.ErrOutcomeUnknown
}

// replyMeaning says what an error reply means.
func replyMeaning(text string) error {
	// Before 7.0 an error inside a script came as "ERR Error running script (...): @user_script:7: -OOM command ...".
	if _, inner, ok := strings.Cut(text, "@user_script: "); ok && strings.HasPrefix(text, "ERR ") {
		_, text, _ = strings.Cut(inner, ": ")
		text = strings.TrimPrefix(text, "-")
	}
	for _, v := range verdicts {
		if strings.HasPrefix(text, v.begins) {
			return v.means
		}
	}
	return broker.ErrOutcomeUnknown
}

// neverSent says whether an error came before anything was written to a connection.
func neverSent(err error) bool {
	for _, before := range []error{
		redis.ErrClosed, redis.ErrPoolTimeout, redis.ErrPoolExhausted,
		errQueueFull, errWaited, errClosed, errNotConnected,
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

// failed wraps an error of go-redis with its meaning, and counts it.
func (s *Store) failed(err error) error {
	m := meaning(err)
	s.metrics.failed(m)
	return fmt.Errorf("%w: %w", m, err)
}

// begin says whether an attempt may begin: not with a cancelled ctx, and only for the kinds there are.
func begin(ctx context.Context, kind broker.Kind) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", broker.ErrUnavailable, context.Cause(ctx))
	}
	if kind < broker.Exclusive || kind > broker.Semaphore {
		return fmt.Errorf("kind %v: %w", kind, broker.ErrUnsupported)
	}
	return nil
}
