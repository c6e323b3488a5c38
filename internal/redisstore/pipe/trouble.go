package pipe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// troubleAfter is after how long without a connection the configuration is taken to be wrong.
	troubleAfter = 2 * time.Second
	// troubleEvery is how often that is logged.
	troubleEvery = time.Minute
)

// Trouble logs that connections cannot be made because something is configured wrong, which does not heal by itself.
type Trouble struct {
	log    *zap.Logger
	secure bool // TLS is configured

	mu    sync.Mutex // guards the fields below
	since time.Time  // since when no connection was made; zero if the last attempt succeeded
	told  time.Time
}

// NewTrouble makes a Trouble that writes to log. secure says whether TLS is configured.
func NewTrouble(log *zap.Logger, secure bool) *Trouble { return &Trouble{log: log, secure: secure} }

// over notes that a connection was made.
func (t *Trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.since, t.told = time.Time{}, time.Time{}
}

// note notes an attempt that failed. It adds to the error what to do about it, and logs it now and then.
func (t *Trouble) note(err error) error {
	remedy := t.remedy(err)
	if remedy == "" {
		return err
	}
	now := time.Now()
	t.mu.Lock()
	if t.since.IsZero() {
		t.since = now
	}
	tell := now.Sub(t.since) >= troubleAfter && now.Sub(t.told) >= troubleEvery
	if tell {
		t.told = now
	}
	t.mu.Unlock()
	if tell {
		t.log.Error("redis cannot be used; if this lasts, the configuration is wrong",
			zap.Error(err), zap.String(observe.KeyRemedy, remedy))
	}
	return fmt.Errorf("%w (%s)", err, remedy)
}

// Remedies say what to do about error replies, by how the replies begin.
type Remedies map[string]string

var remedies = Remedies{
	"WRONGPASS ":                   "check redis.username and redis.password_file",
	"NOAUTH ":                      "redis wants a password: set redis.password_file, and redis.username for an ACL user",
	"ERR invalid password":         "check redis.password_file",
	"ERR AUTH ":                    "redis has no password: leave redis.password_file and redis.username empty",
	"ERR Client sent AUTH":         "redis has no password: leave redis.password_file and redis.username empty",
	"ERR DB index is out of range": "check redis.db: redis has fewer databases",
	"ERR SELECT is not allowed":    "check redis.db: a cluster has database 0 only",
	"NOPERM ":                      "the user of redis.username lacks rights; docs/redis-keys.md lists the commands",
}

// For is what to do about an error, empty if it may heal by itself.
func (rs Remedies) For(err error) string {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		for begins, remedy := range rs {
			if strings.HasPrefix(reply.Error(), begins) {
				return remedy
			}
		}
	}
	return ""
}

// WrongError is an error that does not heal by itself, with what to do about it.
type WrongError struct {
	Err    error
	Remedy string
}

func (e *WrongError) Error() string { return e.Err.Error() }
func (e *WrongError) Unwrap() error { return e.Err }

// remedy is what to do about an error of an attempt to connect, empty if it may heal by itself.
func (t *Trouble) remedy(err error) string {
	if wrong, ok := errors.AsType[*WrongError](err); ok {
		return wrong.Remedy
	}
	if _, ok := errors.AsType[redis.Error](err); ok {
		return remedies.For(err)
	}
	if t.secure {
		return tlsRemedy(err)
	}
	// A server that expects TLS hangs up, or answers with a record of TLS.
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "\\x15\\x03") {
		return "if this port of redis speaks TLS, set redis.tls.enabled to true"
	}
	return ""
}

func tlsRemedy(err error) string {
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	_, badHost := errors.AsType[x509.HostnameError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, refused := errors.AsType[tls.AlertError](err)
	switch {
	case notTLS:
		return "this port of redis does not speak TLS: set redis.tls.enabled to false, or use its port for TLS"
	case badHost:
		return "the certificate of redis has another name: check redis.tls.server_name and redis.addr"
	case unknown:
		return "the certificate of redis is signed by somebody else: check redis.tls.ca_file"
	case refused || strings.Contains(err.Error(), "remote error: tls"):
		return "redis refuses our certificate: check redis.tls.cert_file and redis.tls.key_file"
	case errors.Is(err, errHandshake):
		return "if this port of redis does not speak TLS, set redis.tls.enabled to false"
	}
	return ""
}
