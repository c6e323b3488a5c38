package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// SecretFile is the path of a file that holds a secret. It prints as ***.
type SecretFile string

const redacted = "***"

// Format hides the path from fmt.
func (SecretFile) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, redacted) }

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

var (
	errRedisAddr     = errors.New("must be HOST:PORT, or redis://HOST:PORT/DB, or rediss://… for TLS")
	errRedisPassword = errors.New("must not contain a password: others can read it; use redis.password_file")
	errRedisOptions  = errors.New("must not contain options: each has a key of its own")
	errRedisDB       = errors.New("names another database than redis.db")
	errRedisUser     = errors.New("names another user than redis.username")
)

// Endpoint is r with HOST:PORT as its address: the rest of a URL goes to the keys of its own, which must not contradict
// it. Its errors never repeat the address, which may contain a secret.
func (r Redis) Endpoint() (Redis, error) {
	if strings.Contains(r.Addr, "://") {
		if err := r.takeURL(); err != nil {
			return Redis{}, err
		}
	} else if strings.Contains(r.Addr, "@") {
		return Redis{}, errRedisPassword
	}
	host, port, err := net.SplitHostPort(r.Addr)
	if err != nil || host == "" || port == "0" || !isPort(port) {
		return Redis{}, errRedisAddr
	}
	return r, nil
}

// The schemes of members that are not one server.
const (
	schemeSentinel = "sentinel://"
	schemeCluster  = "cluster://"
)

// Member is r for one member of a majority, and which kind of store that is: HOST:PORT or a URL of one Redis,
// sentinel://MASTER@HOST:PORT,HOST:PORT or cluster://HOST:PORT,HOST:PORT.
func (r Redis) Member(text string) (kind string, one Redis, err error) {
	if rest, ok := strings.CutPrefix(text, schemeSentinel); ok {
		master, addrs, found := strings.Cut(rest, "@")
		if !found {
			return "", Redis{}, errMember
		}
		r.Sentinel.Master, r.Sentinel.Addrs = master, strings.Split(addrs, ",")
		return StoreSentinel, r, nil
	}
	if rest, ok := strings.CutPrefix(text, schemeCluster); ok {
		r.Cluster.Addrs = strings.Split(rest, ",")
		return StoreCluster, r, nil
	}
	r.Addr = text
	one, err = r.Endpoint()
	return StoreStandalone, one, err
}

var errMember = errors.New("must be HOST:PORT, redis://…, sentinel://MASTER@HOST:PORT,… or cluster://HOST:PORT,…")

func (r *Redis) takeURL() error {
	u, err := url.Parse(r.Addr)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return errRedisAddr
	}
	path := cmp.Or(strings.Trim(u.Path, "/"), strconv.Itoa(r.DB))
	db, err := strconv.Atoi(path)
	user := cmp.Or(u.User.Username(), r.Username)
	switch _, hasPassword := u.User.Password(); {
	case hasPassword:
		return errRedisPassword
	case u.RawQuery != "" || u.Fragment != "":
		return errRedisOptions
	case r.Username != "" && r.Username != user:
		return errRedisUser
	case err != nil || db < 0 && db != r.DB:
		return errRedisAddr
	case r.DB != 0 && r.DB != db:
		return errRedisDB
	}
	r.Addr = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))
	r.Username, r.DB = user, db
	r.TLS.Enabled = r.TLS.Enabled || u.Scheme == "rediss"
	return nil
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}
