package app

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
)

func TestPasswordsAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	certstest.Write(t, file, []byte("first\n"))
	c := config.Default().Redis
	c.PasswordFile, c.Sentinel.PasswordFile = secret.File(file), secret.File(file)
	cfg, err := redisConfig(topology.Server{Kind: topology.Sentinel}, c)
	must(t, err)
	want := func(password string) {
		t.Helper()
		if a, b := cfg.PasswordNow(), cfg.Sentinel.PasswordNow(); a != password || b != password {
			t.Errorf("got %q for the servers and %q for the sentinels, want %q", a, b, password)
		}
	}
	want("first")
	certstest.Write(t, file, []byte("second\n"))
	want("second")
	must(t, os.Remove(file))
	want("second") // the last one that could be read
	if _, err := redisConfig(topology.Server{Kind: topology.Sentinel}, c); err == nil {
		t.Error("lockd begins without the file that its configuration names")
	}
	c.PasswordFile, c.Sentinel.PasswordFile = "", ""
	if cfg, err = redisConfig(topology.Server{Kind: topology.Sentinel}, c); err != nil || cfg.PasswordNow != nil ||
		cfg.Sentinel.PasswordNow != nil {
		t.Errorf("got %v and a password where there is none", err)
	}
}

func TestTheCertificateOfLockdIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	c := config.Default().Redis.TLS
	c.Enabled, c.CertFile, c.KeyFile = true, filepath.Join(dir, "tls.crt"),
		secret.File(filepath.Join(dir, "tls.key"))
	authority := certstest.NewAuthority(t, "the authority")
	issue := func(name string) string {
		pair := authority.Issue(t, time.Hour, name)
		certstest.Write(t, c.CertFile, pair.Cert)
		certstest.Write(t, string(c.KeyFile), pair.Key)
		return name
	}
	first := issue("first")
	cfg, err := redisTLS(c)
	must(t, err)
	want := func(name string) {
		t.Helper()
		pair, err := cfg.Clone().GetClientCertificate(new(tls.CertificateRequestInfo))
		if err != nil || pair.Leaf.Subject.CommonName != name {
			t.Errorf("got %v and another certificate", err)
		}
	}
	want(first)
	second := issue("second")
	want(second)
	certstest.Write(t, c.CertFile, []byte("half"))
	want(second)
}
