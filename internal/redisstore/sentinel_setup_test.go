package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/redistest"
)

// alone is a Store behind one sentinel.
func alone(t *testing.T, sentinel string, cfg Config) *Store {
	t.Helper()
	if cfg.Sentinel == nil {
		cfg.Sentinel = new(Sentinel)
	}
	cfg.Sentinel.Master, cfg.Sentinel.Addrs = redistest.MasterName, []string{sentinel}
	cfg.OpTimeout = 5 * time.Second
	return open(t, cfg)
}

// The sentinels have a password of their own.
func TestSentinelsHaveTheirOwnPassword(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	w := redistest.StartSentinel(t, srv.Addr, "requirepass watch", "sentinel auth-pass "+redistest.MasterName+" secret")
	must(t, srv.Client().ConfigSet(t.Context(), "requirepass", "secret").Err())
	s := alone(t, w.Addr, Config{PasswordNow: always("secret"), Sentinel: &Sentinel{PasswordNow: always("watch")}})
	acquire(t, s, claim("n", "o"))
}

// Without a name for the server its certificate must have the host of the address, whichever the sentinels say.
func TestSentinelsOverTLS(t *testing.T) {
	t.Parallel()
	ca := certstest.NewAuthority(t, "redis")
	cert, key := ca.Issue(t, time.Hour, "127.0.0.1").Files(t)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	caFile := ca.File(t)
	lines := func(port string) []string {
		return []string{
			"tls-port " + port, "tls-cert-file " + cert, "tls-key-file " + key, "tls-ca-cert-file " + caFile,
			"tls-auth-clients no",
		}
	}
	addr, port := freePort(t)
	var args []string
	for _, line := range lines(port) {
		key, value, _ := strings.Cut(line, " ")
		args = append(args, "--"+key, value)
	}
	redistest.Start(t, args...)
	watcher, port := freePort(t)
	redistest.StartSentinel(t, addr, append(lines(port), "tls-replication yes")...)
	s := alone(t, watcher,
		Config{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	acquire(t, s, claim("n", "o"))
}

func freePort(t *testing.T) (addr, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err = net.SplitHostPort(l.Addr().String())
	must(t, err)
	return l.Addr().String(), port
}
