package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/redis/go-redis/v9"
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
	{"OOM ", lock.ErrStoreFull},
	{"LOCKDKIND ", lock.ErrKindMismatch}, // ours, see fence.lua
	{"READONLY ", lock.ErrUnavailable},
	{"LOADING ", lock.ErrUnavailable},
	{"MASTERDOWN ", lock.ErrUnavailable},
	{"CLUSTERDOWN ", lock.ErrUnavailable},
	{"TRYAGAIN ", lock.ErrUnavailable},
	{"MOVED ", lock.ErrUnavailable},
	{"ASK ", lock.ErrUnavailable},
	{"NOREPLICAS ", lock.ErrUnavailable},
	{"MISCONF ", lock.ErrUnavailable},
	{"BUSY ", lock.ErrUnavailable},
	{"NOSCRIPT ", lock.ErrUnavailable},
	{"NOAUTH ", lock.ErrUnavailable},
	{"WRONGPASS ", lock.ErrUnavailable},
	{"NOPROTO ", lock.ErrUnavailable},
	{"DENIED ", lock.ErrUnavailable},
	{"ERR max number of clients", lock.ErrUnavailable},
	{"ERR invalid password", lock.ErrUnavailable},
	{"ERR AUTH ", lock.ErrUnavailable},
	{"ERR Client sent AUTH", lock.ErrUnavailable},
	{"ERR DB index is out of range", lock.ErrUnavailable},
}

// meaning says what an error of go-redis means for the caller. When in doubt the outcome is unknown.
func meaning(err error) error {
	if neverSent(err) {
		return lock.ErrUnavailable
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return replyMeaning(reply.Error())
	}
	return lock.ErrOutcomeUnknown
}

// replyMeaning says what an error reply means.
func replyMeaning(text string) error {
	// Before 7.0 an error inside a script came as "ERR Error running script (...): @user_script: 7: -OOM command ...", and one
	// that the script caught as "@user_script: 7: -OOM command ...", perhaps with the place in front where it was raised again.
	if before, inner, ok := strings.Cut(text, "@user_script: "); ok &&
		(before == "" || strings.HasPrefix(before, "ERR ") || strings.HasPrefix(before, "@user_script:")) {
		_, text, _ = strings.Cut(inner, ": ")
		text = strings.TrimPrefix(text, "-")
	}
	for _, v := range verdicts {
		if strings.HasPrefix(text, v.begins) {
			return v.means
		}
	}
	return lock.ErrOutcomeUnknown
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
func begin(ctx context.Context, kind lock.Kind) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, context.Cause(ctx))
	}
	if kind < lock.Exclusive || kind > lock.Semaphore {
		return fmt.Errorf("kind %v: %w", kind, lock.ErrUnsupported)
	}
	return nil
}
