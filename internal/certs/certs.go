// Package certs keeps the certificates of a server as its files have them.
//
// # What it promises
//
// A handshake uses the certificate, the key and the authorities that are in the files: they are read again when a
// client comes and a second has passed since they were read last. If they cannot be used, because a file is missing,
// half written, expired, or not valid yet, the log says so once, and the last good ones stay in use. A connection that
// exists is never touched. TLS sessions are never resumed: each client is asked anew, so an authority that was taken
// away lets nobody in.
//
// # What it does not promise
//
// It does not end connections of clients whose certificates have expired since, or whose authority was taken away. It
// does not look at lists of revoked certificates. Who a client is and what it may do is decided by others.
//
// The certificate providers of gRPC were not taken: they write the key into the log when it does not fit the
// certificate, want both files in one directory, tell nobody what went wrong, and are of no use to HTTP.
package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/secret"
)

// pause is the least time between two reads of the files.
const pause = time.Second

// Whether clients show certificates.
const (
	None     = "none"
	Optional = "optional"
	Required = "required"
)

// Files says whether and how an address speaks TLS: it does if there is a certificate. It is a section of the
// configuration: package config says what the tags mean. Files are PEM.
type Files struct {
	CertFile     string      `key:"cert_file"` // the server's, with the intermediate authorities after it
	KeyFile      secret.File `key:"key_file"`
	ClientCerts  string      `key:"client_certs" default:"none" oneof:"none optional required"`
	ClientCAFile string      `key:"client_ca_file"` // the authorities of clients' certificates
	MinVersion   string      `key:"min_version" default:"1.3" oneof:"1.2 1.3"`
}

// Enabled says whether TLS is spoken.
func (f Files) Enabled() bool { return f.CertFile != "" }

// Check reports by unless what is wrong with a section of the configuration that has f.
func (f Files) Check(section string, unless func(ok bool, format string, args ...any)) {
	asks := f.ClientCerts != None
	unless((f.CertFile == "") == (f.KeyFile == ""), "%[1]s.cert_file: and %[1]s.key_file need each other", section)
	unless(!asks || f.Enabled(), "%[1]s.client_certs: is %[2]q, but there is no %[1]s.cert_file", section, f.ClientCerts)
	unless(asks == (f.ClientCAFile != ""),
		"%[1]s.client_ca_file: is needed when %[1]s.client_certs is optional or required, and only then", section)
}

func (f Files) minVersion() uint16 {
	if f.MinVersion == "1.2" {
		return tls.VersionTLS12
	}
	return tls.VersionTLS13
}

var clientAuth = map[string]tls.ClientAuthType{
	Optional: tls.VerifyClientCertIfGiven, Required: tls.RequireAndVerifyClientCert,
}

// Server has the certificates of one address. Its methods may be called from any goroutine.
type Server struct {
	files Files
	log   *zap.Logger

	mu      sync.Mutex // guards the fields below
	current *tls.Config
	expires time.Time
	seen    [sha256.Size]byte // of the files in use
	read    time.Time         // when the files were last read
	trouble string            // what was wrong with them then; empty if nothing
}

// New reads the files. Its errors name the file's key of the configuration.
func New(files Files, log *zap.Logger) (*Server, error) {
	s := &Server{files: files, log: log}
	text, err := files.read()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	if s.current, s.expires, err = files.use(text, now); err != nil {
		return nil, err
	}
	s.seen, s.read = text.sum(), now
	return s, nil
}

// TLS is the configuration for listeners. It uses new files by itself.
func (s *Server) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: s.files.minVersion(),
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refreshLocked(time.Now())
			return s.current, nil
		},
	}
}

// Expires is when the certificate in use expires.
func (s *Server) Expires() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshLocked(time.Now())
	return s.expires
}

// refreshLocked reads the files again if that is due.
func (s *Server) refreshLocked(now time.Time) {
	if now.Sub(s.read) < pause {
		return
	}
	s.read = now
	text, err := s.files.read()
	if err == nil {
		sum := text.sum()
		if sum == s.seen {
			s.trouble = ""
			return
		}
		var next *tls.Config
		var expires time.Time
		if next, expires, err = s.files.use(text, now); err == nil {
			err = begun(next, now)
		}
		if err == nil {
			s.current, s.expires, s.seen, s.trouble = next, expires, sum, ""
			s.log.Info("the certificate was read again", zap.Time(observe.KeyExpires, expires))
			return
		}
	}
	if err.Error() != s.trouble {
		s.trouble = err.Error()
		s.log.Warn("the new certificate cannot be used; going on with the one before",
			zap.Time(observe.KeyExpires, s.expires), zap.Error(err))
	}
}

// begun is nil if a certificate is valid already. Only one that would replace a good one is checked: the first one is
// used in any case, as there is no better one.
func begun(c *tls.Config, now time.Time) error {
	if from := c.Certificates[0].Leaf.NotBefore; now.Before(from) {
		return fmt.Errorf("cert_file: the certificate is not valid before %s", from.Format(time.RFC3339))
	}
	return nil
}

// texts are the contents of the files.
type texts struct{ cert, key, ca []byte }

func (f Files) read() (t texts, err error) {
	for _, file := range []struct {
		name, path string
		to         *[]byte
	}{
		{"cert_file", f.CertFile, &t.cert},
		{"key_file", string(f.KeyFile), &t.key},
		{"client_ca_file", f.ClientCAFile, &t.ca},
	} {
		if file.path == "" {
			continue
		}
		if *file.to, err = os.ReadFile(file.path); err != nil {
			return t, fmt.Errorf("%s: %w", file.name, err)
		}
	}
	return t, nil
}

// sum tells texts apart.
func (t texts) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, text := range [][]byte{t.cert, t.key, t.ca} {
		one := sha256.Sum256(text)
		_, _ = h.Write(one[:]) // never fails
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// use makes a configuration of what is in the files, and says when its certificate expires.
func (f Files) use(t texts, now time.Time) (*tls.Config, time.Time, error) {
	pair, err := tls.X509KeyPair(t.cert, t.key)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("cert_file, key_file: %w", err)
	}
	if until := pair.Leaf.NotAfter; now.After(until) {
		return nil, until, fmt.Errorf("cert_file: the certificate expired at %s", until.Format(time.RFC3339))
	}
	c := &tls.Config{
		MinVersion: f.minVersion(), Certificates: []tls.Certificate{pair}, ClientAuth: clientAuth[f.ClientCerts],
		SessionTicketsDisabled: true,
	}
	if f.ClientCAFile != "" {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(t.ca) {
			return nil, time.Time{}, errNoCA
		}
	}
	return c, pair.Leaf.NotAfter, nil
}

var errNoCA = errors.New("client_ca_file: no certificate in it")
