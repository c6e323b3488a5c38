package certs

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/secret"
)

// fixture is a Server whose files are those of a pair.
type fixture struct {
	*Server
	ca        *certstest.Authority
	cert, key string
	log       *observer.ObservedLogs
}

func newFixture(t *testing.T, edit func(*Files)) *fixture {
	t.Helper()
	f := &fixture{ca: certstest.NewAuthority(t, "an authority")}
	f.cert, f.key = f.ca.Issue(t, time.Hour, "first").Files(t)
	core, log := observer.New(zapcore.InfoLevel)
	f.log = log
	files := Files{CertFile: f.cert, KeyFile: secret.File(f.key), MinVersion: "1.3"}
	if edit != nil {
		edit(&files)
	}
	var err error
	if f.Server, err = New(files, zap.New(core)); err != nil {
		t.Fatal(err)
	}
	return f
}

// replace writes another pair, and lets a second pass.
func (f *fixture) replace(t *testing.T, p certstest.Pair) {
	t.Helper()
	certstest.Write(t, f.cert, p.Cert)
	certstest.Write(t, f.key, p.Key)
	f.later()
}

func (f *fixture) later() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = f.read.Add(-2 * pause)
}

// shown is the name of the certificate that the next client gets.
func (f *fixture) shown(t *testing.T) string {
	t.Helper()
	return f.config(t).Certificates[0].Leaf.Subject.CommonName
}

func (f *fixture) config(t *testing.T) *tls.Config {
	t.Helper()
	c, err := f.TLS().GetConfigForClient(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestANewCertificateIsUsedBySomebodyWhoComesLater(t *testing.T) {
	f := newFixture(t, nil)
	certstest.Write(t, f.cert, f.ca.Issue(t, time.Hour, "ignored").Cert) // within the same second nobody looks
	if got := f.shown(t); got != "first" {
		t.Errorf("got %q", got)
	}
	f.replace(t, f.ca.Issue(t, 2*time.Hour, "second"))
	if got := f.shown(t); got != "second" {
		t.Errorf("got %q", got)
	}
	if left := time.Until(f.Expires()); left < 90*time.Minute {
		t.Errorf("it expires in %v", left)
	}
	if f.log.FilterMessageSnippet("read again").Len() != 1 {
		t.Errorf("got the log %v", f.log.All())
	}
}

// Clients refuse a certificate that is not valid yet. So the one before serves until its time has come.
func TestACertificateIsUsedWhenItsTimeHasCome(t *testing.T) {
	f := newFixture(t, nil)
	f.replace(t, f.ca.IssueFrom(t, time.Hour, 3*time.Hour, "second"))
	for range 3 {
		f.later()
		if got := f.shown(t); got != "first" {
			t.Errorf("got %q before its time", got)
		}
	}
	lines := f.log.TakeAll()
	if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["error"].(string), "not valid before") {
		t.Errorf("got the log %v", lines)
	}
	f.mu.Lock()
	f.refreshLocked(time.Now().Add(2 * time.Hour))
	f.mu.Unlock()
	if got := f.shown(t); got != "second" {
		t.Errorf("got %q after its time", got)
	}
	early, key := f.ca.IssueFrom(t, time.Hour, 2*time.Hour, "early").Files(t)
	if _, err := New(Files{CertFile: early, KeyFile: secret.File(key)}, zap.NewNop()); err != nil {
		t.Errorf("the first one waits for its time: got %v", err)
	}
}

func TestWhatCannotBeUsedIsSaidOnceAndTheLastGoodOneServes(t *testing.T) {
	f := newFixture(t, nil)
	good := f.ca.Issue(t, time.Hour, "second")
	for name, spoil := range map[string]struct {
		what func()
		says string
	}{
		"half written": {func() { certstest.Write(t, f.cert, good.Cert[:len(good.Cert)/2]) }, "cert_file"},
		"the key of another": {func() {
			certstest.Write(t, f.cert, good.Cert)
			certstest.Write(t, f.key, f.ca.Issue(t, time.Hour, "x").Key)
		}, "does not match"},
		"gone":    {func() { _ = os.Remove(f.cert) }, "no such file"},
		"expired": {func() { f.replace(t, f.ca.Issue(t, -time.Minute, "old")) }, "expired at"},
	} {
		f.log.TakeAll()
		spoil.what()
		for range 3 {
			f.later()
			if got := f.shown(t); got != "first" {
				t.Errorf("%s: got %q", name, got)
			}
		}
		lines := f.log.TakeAll()
		if len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["error"].(string), spoil.says) {
			t.Errorf("%s: got the log %v", name, lines)
		}
		for _, line := range lines {
			if text := line.ContextMap()["error"].(string); strings.Contains(text, "PRIVATE KEY") {
				t.Errorf("%s: the log has the key", name)
			}
		}
	}
	f.replace(t, good)
	if got := f.shown(t); got != "second" {
		t.Errorf("got %q", got)
	}
}

func TestANewAuthorityOfClientsIsUsedAndTheOldOneIsNot(t *testing.T) {
	first, second := certstest.NewAuthority(t, "first"), certstest.NewAuthority(t, "second")
	path := first.File(t)
	f := newFixture(t, func(files *Files) {
		files.ClientCAFile, files.ClientCerts = path, Required
	})
	trusted := func(a *certstest.Authority) bool {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(a.PEM())
		return f.config(t).ClientCAs.Equal(pool)
	}
	if !trusted(first) {
		t.Error("the first authority is not trusted")
	}
	certstest.Write(t, path, second.PEM())
	f.later()
	if !trusted(second) {
		t.Error("the second authority is not trusted, or the first one still is")
	}
	if c := f.config(t); !c.SessionTicketsDisabled || c.ClientAuth != tls.RequireAndVerifyClientCert ||
		c.MinVersion != tls.VersionTLS13 {
		t.Errorf("got %+v", c)
	}
}

func TestNewNamesTheFileThatIsWrong(t *testing.T) {
	ca := certstest.NewAuthority(t, "an authority")
	cert, key := ca.Issue(t, time.Hour, "x").Files(t)
	expired, itsKey := ca.Issue(t, -time.Second, "x").Files(t)
	empty := certstest.Write(t, filepath.Join(t.TempDir(), "empty"), nil)
	for want, files := range map[string]Files{
		"cert_file: open":                        {CertFile: "nowhere", KeyFile: secret.File(key)},
		"key_file: open":                         {CertFile: cert, KeyFile: "nowhere"},
		"client_ca_file: open":                   {CertFile: cert, KeyFile: secret.File(key), ClientCAFile: "nowhere"},
		"client_ca_file: no certificate":         {CertFile: cert, KeyFile: secret.File(key), ClientCAFile: empty},
		"cert_file, key_file: tls: private key":  {CertFile: cert, KeyFile: secret.File(itsKey)},
		"cert_file: the certificate expired at ": {CertFile: expired, KeyFile: secret.File(itsKey)},
	} {
		if _, err := New(files, zap.NewNop()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
