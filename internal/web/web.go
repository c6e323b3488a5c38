// Package web serves HTTP/1.1 to whoever comes, at one of lockd's addresses.
//
// # What it promises
//
// A client that does not send, or does not read, costs nothing lasting: its headers have to come within headerTime, its
// body within bodyTime, and an answer has to be read within answerTime. A request has a goroutine and some 20 KB for as
// long as it is under way, and there is one at a time on a connection. Certificates are those that the configuration of
// TLS has at the time of the handshake. A client of gRPC gets an error that it understands.
//
// # What it does not promise
//
// The listener bounds how many connections there are, and the handler what a request costs. Nothing that a proxy says
// in a header counts: the address of a client is that of its connection.
package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	headerTime  = 10 * time.Second // TLS included
	bodyTime    = 10 * time.Second
	answerTime  = 20 * time.Second
	idleTime    = 2 * time.Minute
	headerBytes = 12 << 10 // of net/http, which lets 4 KiB more pass

	// smallBody is how many bytes a small body may have: it costs no more than its connection. Larger ones are under way
	// at most largeBodies at a time, largeOfOne of one address.
	smallBody   = 4 << 10
	largeBodies = 512
	largeOfOne  = 64
)

// NewServer makes a server for an address; key is the address's key in the configuration.
func NewServer(key string, h http.Handler, log *zap.Logger) *http.Server {
	log = log.Named("web").With(zap.String(observe.KeyEndpoint, key))
	errorLog, _ := zap.NewStdLogAt(log, zap.WarnLevel) // Warn is a level it knows
	errorLog.SetOutput(&httpErrors{log: log})
	s := &http.Server{
		Handler: guard(key, h), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: errorLog, Protocols: new(http.Protocols),
		// net/http would answer OPTIONS * itself, and wait for its body for ever.
		DisableGeneralOptionsHandler: true,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){
			"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) { answerGRPC(key, c, c) },
		},
	}
	s.Protocols.SetHTTP1(true)
	return s
}

// TLS is of for listeners of a server: clients get HTTP/1.1 if they can speak it, and h2 only so that those of gRPC can
// be answered.
func TLS(of *tls.Config) *tls.Config {
	of = of.Clone()
	current := of.GetConfigForClient
	of.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, err := current(hello)
		if err != nil {
			return nil, err
		}
		c = c.Clone()
		c.NextProtos = []string{"http/1.1", "h2"}
		return c, nil
	}
	return of
}

// httpErrors logs the errors of net/http. Anybody can cause them, so one in a second is logged.
type httpErrors struct {
	observe.LogLimiter
	log *zap.Logger
}

// Write implements io.Writer.
func (e *httpErrors) Write(line []byte) (int, error) {
	e.Warn(e.log, "a request was not served", zap.String(observe.KeyCause, strings.TrimSpace(string(line))))
	return len(line), nil
}

// guard bounds the time in which a body has to come, also if the handler does not read it, and in which an answer has
// to be read. It answers clients of gRPC itself.
func guard(key string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "PRI" {
			hijackGRPC(key, w)
			return
		}
		c := http.NewResponseController(w)
		_ = c.SetReadDeadline(time.Now().Add(bodyTime)) // net/http can do that, as below
		_ = c.SetWriteDeadline(time.Time{})             // that of the answer before ends
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		h.ServeHTTP(&answer{ResponseWriter: w}, r)
	})
}

// IsHere says whether a Host is an IP address or localhost. Any other name may belong to a site that points it here
// (DNS rebinding): a browser lets that site read what it finds under the name.
func IsHere(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// answer gives its client answerTime to read it. Its Write hides errors: no handler needs to know whether the client
// read.
type answer struct {
	http.ResponseWriter
	begun bool
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if !a.begun {
		a.begun = true
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(answerTime))
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements io.Writer.
func (a *answer) Write(b []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	_, _ = a.ResponseWriter.Write(b)
	return len(b), nil
}

// ErrTooLarge is for a body that has too many bytes.
var ErrTooLarge = errors.New("the body is too large")

// TooManyError is for a large body when there are as many as there may be, in all or of its address.
type TooManyError struct{ Limit int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d large bodies are on their way", e.Limit)
}

// Bodies reads bodies of requests. It bounds their size, and how many large ones are under way.
type Bodies struct {
	most int64

	mu    sync.Mutex // guards the fields below
	large map[lock.Tenant]int
	all   int // of large
}

// NewBodies makes Bodies that may have most bytes each.
func NewBodies(most int) *Bodies { return &Bodies{most: int64(most), large: make(map[lock.Tenant]int)} }

// enter lets a large body of an address in, if there is room: else it is a *TooManyError. Call leave afterwards.
func (b *Bodies) enter(address lock.Tenant) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.all >= largeBodies:
		return &TooManyError{largeBodies}
	case b.large[address] >= largeOfOne:
		return &TooManyError{largeOfOne}
	}
	b.large[address]++
	b.all++
	return nil
}

func (b *Bodies) leave(address lock.Tenant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all--
	if b.large[address]--; b.large[address] == 0 {
		delete(b.large, address)
	}
}

// Read reads the whole body of a request. From then on the request's context ends when the client goes, and not before.
// A handler that does not call Read has to be done within bodyTime. With an error Read returns the part that came, and
// the connection is closed after the answer.
func (b *Bodies) Read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := b.read(limits.TenantOf(r.RemoteAddr), http.MaxBytesReader(w, r.Body, b.most))
	if err != nil {
		w.Header().Set("Connection", "close")
		return text, err
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return text, nil
}

func (b *Bodies) read(address lock.Tenant, body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, smallBody+1))
	if err == nil && len(text) > smallBody {
		if err := b.enter(address); err != nil {
			return text, err
		}
		defer b.leave(address)
		var rest []byte
		rest, err = io.ReadAll(body)
		text = append(text, rest...)
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return text, ErrTooLarge
	}
	return text, err
}
