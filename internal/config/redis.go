package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
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

var (
	errRedisAddr     = errors.New("must be HOST:PORT, redis://HOST:PORT/DB, rediss://… for TLS, or unix:///PATH")
	errRedisPassword = errors.New("must not contain a password: others can read it; use redis.password_file")
	errRedisOptions  = errors.New("must not contain options: each has a key of its own")
	errRedisTwice    = errors.New("names another user or database than redis.username and redis.db")
	errSocketTLS     = errors.New("is a socket of this machine, where no TLS is spoken")
)

// Endpoint is r with HOST:PORT or the path of a socket as its address: the rest of a URL goes to the keys of its own,
// which must not contradict it. Its errors never repeat the address, which may contain a secret.
func (r Redis) Endpoint() (Redis, error) {
	path, isSocket := strings.CutPrefix(r.Addr, "unix://")
	switch isURL := strings.Contains(r.Addr, "://"); {
	case isSocket && !isPath(path):
		return Redis{}, errRedisAddr
	case isSocket && r.TLS.Enabled:
		return Redis{}, errSocketTLS
	case isSocket:
		r.Addr = path
		return r, nil
	case !isURL && strings.Contains(r.Addr, "@"):
		return Redis{}, errRedisPassword
	case !isURL && !isServer(r.Addr):
		return Redis{}, errRedisAddr
	case !isURL:
		return r, nil
	}
	u, err := url.Parse(r.Addr)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		return Redis{}, errRedisAddr
	}
	user := cmp.Or(u.User.Username(), r.Username)
	db, err := strconv.Atoi(cmp.Or(strings.Trim(u.Path, "/"), strconv.Itoa(r.DB)))
	addr := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))
	switch _, hasPassword := u.User.Password(); {
	case hasPassword:
		return Redis{}, errRedisPassword
	case u.RawQuery != "" || u.Fragment != "":
		return Redis{}, errRedisOptions
	case err != nil || db < 0 || !isServer(addr):
		return Redis{}, errRedisAddr
	case r.Username != "" && r.Username != user, r.DB != 0 && r.DB != db:
		return Redis{}, errRedisTwice
	}
	r.Addr, r.Username, r.DB = addr, user, db
	r.TLS.Enabled = r.TLS.Enabled || u.Scheme == "rediss"
	return r, nil
}

// keyOfAddrs is the key that says where a kind of store is.
var keyOfAddrs = map[string]string{
	StoreStandalone: "redis.addr",
	StoreSentinel:   "redis.sentinel.addrs",
	StoreCluster:    "redis.cluster.addrs",
	StoreRedlock:    "redlock.members",
}

// storeAt takes apart what --redis or a member of a majority is called: sentinel://MASTER@HOST:PORT,HOST:PORT,
// cluster://HOST:PORT,HOST:PORT, or an address of one Redis.
func storeAt(text string) (kind, master, addrs string) {
	scheme, rest, _ := strings.Cut(text, "://")
	switch scheme {
	case StoreSentinel:
		master, addrs, _ = strings.Cut(rest, "@")
		return StoreSentinel, master, addrs
	case StoreCluster:
		return StoreCluster, "", rest
	}
	return StoreStandalone, "", text
}

// Member is r for one member of a majority, and which kind of store that is.
func (r Redis) Member(text string) (kind string, one Redis, err error) {
	kind, r.Sentinel.Master, text = storeAt(text)
	switch kind {
	case StoreSentinel:
		r.Sentinel.Addrs = strings.Split(text, ",")
	case StoreCluster:
		r.Cluster.Addrs = strings.Split(text, ",")
	default:
		r.Addr = text
		r, err = r.Endpoint()
	}
	return kind, r, err
}

// isServer says whether a text is HOST:PORT of something to connect to.
func isServer(addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	return err == nil && host != "" && isWord(addr) && !strings.ContainsAny(addr, "@/") && port != "0" && isPort(port)
}

// isPath says whether a text is the path of a socket, from the root on.
func isPath(s string) bool { return filepath.IsAbs(s) && readable(s) && !strings.ContainsAny(s, "?#") }

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}
