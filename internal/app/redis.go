package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
)

// ErrConfig: what the configuration names cannot be used, such as a file that is not there.
var ErrConfig = errors.New("wrong configuration")

// redisConfig is the configuration for one server. It reads the secrets and certificates that the configuration names.
// Passwords and our own certificate are read again for each new connection, so that they may be changed while lockd
// runs.
func redisConfig(s topology.Server, c topology.Redis) (out redisstore.Config, err error) {
	out = redisstore.Config{
		DB: s.DB, Username: s.Username, Prefix: c.Prefix, FenceTTL: c.FenceTTL,
		OpTimeout: c.OpTimeout, ConnectTimeout: c.ConnectTimeout, Replicas: c.WaitReplicas,
	}
	switch s.Kind {
	case topology.Standalone:
		out.Addr = s.Addrs[0]
	case topology.Sentinel:
		out.Sentinel = &redisstore.Sentinel{Master: s.Master, Addrs: s.Addrs, Username: c.Sentinel.Username}
		if out.Sentinel.PasswordNow, err = passwordIn(c.Sentinel.PasswordFile); err != nil {
			return out, fmt.Errorf("redis.sentinel.password_file: %w", err)
		}
	}
	if out.PasswordNow, err = passwordIn(c.PasswordFile); err != nil {
		return out, fmt.Errorf("redis.password_file: %w", err)
	}
	c.TLS.Enabled = s.TLS
	out.TLS, err = redisTLS(c.TLS)
	return out, err
}

// passwordIn returns a function that reads the password; nil if there is none.
func passwordIn(f secret.File) (now func() string, err error) {
	if f == "" {
		return nil, nil
	}
	return latest(func() (string, error) {
		text, err := os.ReadFile(string(f))
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		return strings.TrimRight(string(text), "\r\n"), nil // without the line end that editors add
	})
}

// latest reads something, and returns a function that reads it again. While that fails it returns what was read last.
func latest[T any](read func() (T, error)) (now func() T, err error) {
	last, err := read()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards last
	return func() T {
		mu.Lock()
		defer mu.Unlock()
		if v, err := read(); err == nil {
			last = v
		}
		return last
	}, nil
}

// redisTLS is nil if TLS to Redis is off. Without a server name, that of each address is expected.
func redisTLS(c topology.TLS) (*tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("redis.tls.ca_file: no certificate in it")
		}
	}
	if c.CertFile != "" {
		now, err := latest(func() (tls.Certificate, error) { return tls.LoadX509KeyPair(c.CertFile, string(c.KeyFile)) })
		if err != nil {
			return nil, fmt.Errorf("redis.tls.cert_file, redis.tls.key_file: %w", err)
		}
		out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair := now()
			return &pair, nil
		}
	}
	return out, nil
}
