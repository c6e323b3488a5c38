package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// Redis is how the Redis of a standalone store is reached and used.
type Redis struct {
	// Addr is HOST:PORT, or redis://[USER@]HOST[:PORT][/DB], or the same with rediss:// for TLS.
	Addr         string     `mapstructure:"addr"`
	Username     string     `mapstructure:"username"`
	PasswordFile SecretFile `mapstructure:"password_file"`
	DB           int        `mapstructure:"db"`
	TLS          RedisTLS   `mapstructure:"tls"`
	// Prefix goes in front of every lock name.
	Prefix string `mapstructure:"prefix"`
	// ConnectTimeout bounds making a connection, with all its round trips.
	ConnectTimeout time.Duration `mapstructure:"connect_timeout"`
	// OpTimeout bounds one command or script.
	OpTimeout time.Duration `mapstructure:"op_timeout"`
	// FenceTTL is how long the last fence of an unused name is remembered, or half of that at least.
	FenceTTL time.Duration `mapstructure:"fence_ttl"`
}

// RedisTLS says whether and how to speak TLS to Redis. Files are PEM.
type RedisTLS struct {
	Enabled bool `mapstructure:"enabled"`
	// CAFile replaces the system's roots.
	CAFile string `mapstructure:"ca_file"`
	// CertFile and KeyFile are the client's certificate.
	CertFile string     `mapstructure:"cert_file"`
	KeyFile  SecretFile `mapstructure:"key_file"`
	// ServerName is expected in the server's certificate; empty = the host of the address.
	ServerName string `mapstructure:"server_name"`
}

// SecretFile is the path of a file that holds a secret. It prints as ***.
type SecretFile string

const redacted = "***"

// String hides the path.
func (SecretFile) String() string { return redacted }

// GoString hides the path from %#v.
func (SecretFile) GoString() string { return redacted }

// MarshalText hides the path from encoders, JSON's among them.
func (SecretFile) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Path is where the secret is.
func (s SecretFile) Path() string { return string(s) }

// Read reads the secret, without the line end that editors add. No file, no secret.
func (s SecretFile) Read() (string, error) {
	if s == "" {
		return "", nil
	}
	b, err := os.ReadFile(string(s))
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// Endpoint is what Redis.Addr means together with the keys it may contain.
type Endpoint struct {
	Addr     string // HOST:PORT
	Username string
	DB       int
	TLS      bool
}

var (
	errRedisAddr     = errors.New("must be HOST:PORT, or redis://HOST:PORT/DB, or rediss://… for TLS")
	errRedisPassword = errors.New("must not contain a password: others can read it; use redis.password_file")
	errRedisOptions  = errors.New("must not contain options: each has a key of its own")
	errRedisDB       = errors.New("names another database than redis.db")
	errRedisUser     = errors.New("names another user than redis.username")
)

// Endpoint takes Addr apart. Its errors never repeat the address, which may contain a secret.
func (r Redis) Endpoint() (Endpoint, error) {
	e := Endpoint{Addr: r.Addr, Username: r.Username, DB: r.DB, TLS: r.TLS.Enabled}
	if !strings.Contains(r.Addr, "://") {
		if strings.Contains(r.Addr, "@") {
			return Endpoint{}, errRedisPassword
		}
		return e.checked()
	}
	u, err := url.Parse(r.Addr)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return Endpoint{}, errRedisAddr
	}
	if _, has := u.User.Password(); has {
		return Endpoint{}, errRedisPassword
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, errRedisOptions
	}
	e.Addr = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))
	e.TLS = e.TLS || u.Scheme == "rediss"
	return r.merge(e, u)
}

// merge adds the user and the database that a URL names, unless keys of their own say otherwise.
func (r Redis) merge(e Endpoint, u *url.URL) (Endpoint, error) {
	if user := u.User.Username(); user != "" {
		if r.Username != "" && r.Username != user {
			return Endpoint{}, errRedisUser
		}
		e.Username = user
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		db, err := strconv.Atoi(path)
		if err != nil || db < 0 {
			return Endpoint{}, errRedisAddr
		}
		if r.DB != 0 && r.DB != db {
			return Endpoint{}, errRedisDB
		}
		e.DB = db
	}
	return e.checked()
}

// checked is e, unless nothing can be dialed there.
func (e Endpoint) checked() (Endpoint, error) {
	host, port, err := net.SplitHostPort(e.Addr)
	if err != nil || host == "" || !isPort(port) || port == "0" {
		return Endpoint{}, errRedisAddr
	}
	return e, nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}
