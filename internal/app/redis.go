package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// ErrConfig: what the configuration names cannot be used, such as a file that is not there.
var ErrConfig = errors.New("wrong configuration")

// redisConfig reads the secrets and certificates that the configuration names.
func redisConfig(c config.Redis) (redisstore.Config, error) {
	end, err := c.Endpoint()
	if err != nil {
		return redisstore.Config{}, fmt.Errorf("redis.addr: %w", err)
	}
	password, err := c.PasswordFile.Read()
	if err != nil {
		return redisstore.Config{}, fmt.Errorf("redis.password_file: %w", err)
	}
	secure, err := redisTLS(end)
	if err != nil {
		return redisstore.Config{}, err
	}
	return redisstore.Config{
		Addr:      end.Addr,
		DB:        end.DB,
		Username:  end.Username,
		Password:  password,
		TLS:       secure,
		Prefix:    c.Prefix,
		FenceTTL:  c.FenceTTL,
		OpTimeout: c.OpTimeout,

		ConnectTimeout: c.ConnectTimeout,
	}, nil
}

// redisTLS is nil when Redis is not spoken to over TLS.
func redisTLS(end config.Redis) (*tls.Config, error) {
	c := end.TLS
	if !c.Enabled {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(end.Addr)
	if err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if c.ServerName != "" {
		out.ServerName = c.ServerName
	}
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
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile.Path())
		if err != nil {
			return nil, fmt.Errorf("redis.tls.cert_file, redis.tls.key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
