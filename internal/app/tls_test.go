package app

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/test/harness"
)

// world is who is there when TLS is spoken: the authority that all trust, and one that nobody does.
type world struct {
	ca, stranger *certstest.Authority
	good         client.TLS // of a client that is let in everywhere
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ca: certstest.NewAuthority(t, "the authority"), stranger: certstest.NewAuthority(t, "a stranger")}
	w.good.CACert = w.ca.File(t)
	w.good.Cert, w.good.Key = w.ca.Issue(t, time.Hour, "a client").Files(t)
	return w
}

// server is the TLS of an address: its certificate, and what it asks of clients.
func (w *world) server(t *testing.T, p certstest.Pair, clientCerts string) certs.Files {
	t.Helper()
	cert, key := p.Files(t)
	c := certs.Files{CertFile: cert, KeyFile: secret.File(key), ClientCerts: clientCerts, MinVersion: "1.3"}
	if clientCerts != certs.None {
		c.ClientCAFile = w.ca.File(t)
	}
	return c
}

// startSecure runs an App with TLS for clients and for operators.
func startSecure(t *testing.T, secure certs.Files) (*App, *observer.ObservedLogs) {
	t.Helper()
	cfg := testConfig()
	cfg.ListenTLS, cfg.AdminTLS = secure, secure
	core, log := observer.New(zapcore.InfoLevel)
	a, _ := startWith(t, cfg, zap.New(core))
	return a, log
}

// take takes a lock and releases it.
func take(t *testing.T, addr string, opts ...client.Option) error {
	t.Helper()
	c, err := client.Dial(addr, append(opts, client.WithAnswerTimeout(20*time.Second))...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	l, err := c.TryLock(t.Context(), "gate")
	if err != nil {
		return err
	}
	return l.Unlock(t.Context())
}

// Both sides say why somebody is refused. Who is let in as a client is let in as an operator, too.
func TestWhoIsLetInOverTLS(t *testing.T) {
	w := newWorld(t)
	pair := w.ca.Issue(t, time.Hour, "127.0.0.1", "lockd.test")
	none, optional, required := w.server(t, pair, certs.None), w.server(t, pair, certs.Optional),
		w.server(t, pair, certs.Required)
	trusting := func(ca string) *client.TLS { return &client.TLS{CACert: ca} }
	named := func(name string) *client.TLS { return &client.TLS{CACert: w.good.CACert, ServerName: name} }
	bare := trusting(w.good.CACert)
	with := func(p certstest.Pair) *client.TLS {
		c := trusting(w.good.CACert)
		c.Cert, c.Key = p.Files(t)
		return c
	}
	strange := with(w.stranger.Issue(t, time.Hour, "x"))
	for name, row := range map[string]struct {
		server         certs.Files
		as             *client.TLS // nil: clear text
		client, logged string      // empty for who is let in
	}{
		"nobody is asked":            {none, bare, "", ""},
		"by its name":                {none, named("lockd.test"), "", ""},
		"nobody is asked, one shows": {none, &w.good, "", ""},
		"who wants is asked":         {optional, bare, "", ""},
		"who wants shows":            {optional, &w.good, "", ""},
		"the right certificate":      {required, &w.good, "", ""},

		"no certificate":      {required, bare, "certificate required", "didn't provide a certificate"},
		"an expired one":      {required, with(w.ca.Issue(t, -time.Minute, "late")), "expired certificate", "has expired"},
		"one of a stranger":   {required, strange, "unknown certificate authority", "unknown authority"},
		"that, not required":  {optional, strange, "unknown certificate authority", "unknown authority"},
		"another authority":   {none, trusting(w.stranger.File(t)), "unknown authority", "bad certificate"},
		"the system's":        {none, trusting(""), "unknown authority", "bad certificate"},
		"another name":        {none, named("other.test"), "other.test", "bad certificate"},
		"clear text":          {none, nil, "does this server want TLS", "does not look like a TLS handshake"},
		"TLS to a clear text": {certs.Files{}, &w.good, "does not look like a TLS handshake", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, log := startSecure(t, row.server)
			var opts []client.Option
			if row.as != nil {
				opts = append(opts, client.WithTLS(*row.as))
			}
			err := take(t, a.Addr(), opts...)
			if row.client == "" {
				if err != nil {
					t.Errorf("the client: %v", err)
				}
				creds, err := row.as.Credentials()
				must(t, err)
				statusOf(t, a, creds)
				if log.FilterLevelExact(zapcore.WarnLevel).FilterMessageSnippet("handshake").Len() > 0 {
					t.Errorf("got the log %v", log.All())
				}
				return
			}
			if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), row.client) {
				t.Errorf("the client says %v, want %q", err, row.client)
			}
			if row.logged == "" {
				return
			}
			line := failedHandshake(t, log)
			if cause, _ := line["cause"].(string); !strings.Contains(cause, row.logged) || line["endpoint"] != "listen" {
				t.Errorf("the log says %v, want %q", line, row.logged)
			}
			if _, text := get(t, a, "/metrics"); strings.Contains(text,
				`lockd_tls_handshakes_failed_total{endpoint="listen"} 0`) {
				t.Error("it was not counted")
			}
		})
	}
}

// failedHandshake waits for the first line about one.
func failedHandshake(t *testing.T, log *observer.ObservedLogs) map[string]any {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if lines := log.FilterMessageSnippet("TLS handshake failed").All(); len(lines) > 0 {
			return lines[0].ContextMap()
		}
	}
	t.Fatalf("the log has only %v", log.All())
	return nil
}

func TestTheOldestVersionOfTLS(t *testing.T) {
	w := newWorld(t)
	for version, want := range map[string]bool{"1.2": true, "1.3": false} {
		secure := w.server(t, w.ca.Issue(t, time.Hour, "127.0.0.1"), certs.None)
		secure.MinVersion = version
		a, _ := startSecure(t, secure)
		conn, err := tls.Dial("tcp", a.Addr(),
			&tls.Config{RootCAs: w.pool(), MaxVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
		if (err == nil) != want {
			t.Errorf("min_version %s and a client of 1.2: %v", version, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func TestProbesAndMetricsOverTLS(t *testing.T) {
	w := newWorld(t)
	cfg := testConfig()
	cfg.OpsTLS = w.server(t, w.ca.Issue(t, time.Hour, "127.0.0.1"), certs.Required)
	a, _ := start(t, cfg)
	own, err := tls.LoadX509KeyPair(w.good.Cert, w.good.Key)
	must(t, err)
	for name, certs := range map[string][]tls.Certificate{"with a certificate": {own}, "without": nil} {
		hc := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: w.pool(), Certificates: certs},
		}}
		resp, err := hc.Get("https://" + a.OpsAddr() + "/healthz")
		if (err == nil) != (certs != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	if code, body := get(t, a, "/healthz"); code != http.StatusBadRequest {
		t.Errorf("clear text gets %d %s", code, body)
	}
}

// Certificates of both sides, and their authority, are replaced. A stream that is open stays, and new ones are let in.
func TestCertificatesAreReplacedWhileClientsWork(t *testing.T) {
	w := newWorld(t)
	secure := w.server(t, w.ca.Issue(t, time.Hour, "127.0.0.1"), certs.Required)
	a, _ := startSecure(t, secure)
	c, err := client.Dial(a.Addr(), client.WithTLS(w.good), client.WithOnStatus(func(s client.Status) {
		if s.State != client.Connected {
			t.Error(s)
		}
	}))
	must(t, err)
	defer func() { _ = c.Close() }()
	held, err := c.Lock(t.Context(), "held")
	must(t, err)
	old := w.good
	w.ca = certstest.NewAuthority(t, "another authority")
	pair := w.ca.Issue(t, time.Hour, "127.0.0.1")
	certstest.Write(t, secure.ClientCAFile, w.ca.PEM())
	certstest.Write(t, secure.CertFile, pair.Cert)
	certstest.Write(t, string(secure.KeyFile), pair.Key)
	w.good.CACert = w.ca.File(t)
	w.good.Cert, w.good.Key = w.ca.Issue(t, time.Hour, "a client").Files(t)
	harness.Until(t, "the new authority counts", func() bool {
		return take(t, a.Addr(), client.WithTLS(w.good)) == nil
	})
	old.CACert = w.good.CACert
	if err := take(t, a.Addr(), client.WithTLS(old)); err == nil {
		t.Error("a certificate of the old authority is let in")
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClearTextOnANetworkIsSaidLoudly(t *testing.T) {
	for want, row := range map[string]struct {
		ops, admin, clients at
		edit                func(*config.Config)
	}{
		"listen":                   {"", "127.0.0.1", "10.0.0.1", func(*config.Config) {}},
		"":                         {"::", "127.0.0.1", "10.0.0.1", func(c *config.Config) { c.ListenTLS.CertFile = "f" }},
		"ops_listen, admin_listen": {"::", "0.0.0.0", "::1", func(c *config.Config) { c.Ops.Pprof = true }},
	} {
		core, log := observer.New(zapcore.WarnLevel)
		a := &App{cfg: config.Default(), log: zap.New(core)}
		a.listeners = [endpoint.Count]net.Listener{row.ops, row.admin, row.clients}
		row.edit(&a.cfg)
		a.warnOfClearText()
		lines := log.TakeAll()
		if got := len(lines); want == "" && got > 0 || want != "" && (got != 1 || lines[0].ContextMap()["endpoint"] != want) {
			t.Errorf("got %v, want %q", lines, want)
		}
	}
}

func TestThatNobodyIsAskedWhoHeIsIsSaidLoudly(t *testing.T) {
	for want, row := range map[string]struct {
		ops, admin, clients at
		guard               *security.Guard
	}{
		"":                     {"::", "127.0.0.1", "::1", nil},
		"listen":               {"::1", "127.0.0.1", "10.0.0.1", nil},
		"admin_listen, listen": {"::", "0.0.0.0", "::", nil},
		" ":                    {"::", "0.0.0.0", "::", new(security.Guard)},
	} {
		core, log := observer.New(zapcore.WarnLevel)
		a := &App{cfg: config.Default(), log: zap.New(core)}
		a.listeners = [endpoint.Count]net.Listener{row.ops, row.admin, row.clients}
		a.guard = row.guard
		a.warnOfNoIdentities()
		lines := log.FilterMessageSnippet("NO IDENTITIES").TakeAll()
		if want = strings.TrimSpace(want); len(lines) == 0 && want != "" ||
			len(lines) > 0 && lines[0].ContextMap()["endpoint"] != want {
			t.Errorf("%+v: got %v, want %q", row, lines, want)
		}
	}
}

// at is a listener that only has an address.
type at string

func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (at) Close() error              { return nil }
func (a at) Addr() net.Addr          { return &net.TCPAddr{IP: net.ParseIP(string(a))} }

func TestFilesOfTLSThatAreNotThereAreAWrongConfiguration(t *testing.T) {
	cfg := testConfig()
	cfg.AdminTLS = certs.Files{
		CertFile: filepath.Join(t.TempDir(), "no"), KeyFile: "no", ClientCerts: "none",
		MinVersion: "1.3",
	}
	if _, err := New(cfg, zap.NewNop()); !errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), "admin_tls.cert_file: open") {
		t.Errorf("got %v", err)
	}
}

// What is wrong with the clients file, or with the place of the audit, is found before anything is opened.
func TestAWrongClientsFileIsAWrongConfiguration(t *testing.T) {
	clients := certstest.Write(t, filepath.Join(t.TempDir(), "clients"), []byte(oneClient))
	for want, row := range map[string][2]string{
		"security: open nowhere":         {"nowhere", ""},
		"open the audit: open nowhere/a": {clients, "nowhere/a"},
	} {
		cfg := testConfig()
		cfg.Security.ClientsFile, cfg.Security.Audit = row[0], row[1]
		if _, err := New(cfg, zap.NewNop()); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Doctor and status tell of the clients file, and doctor of the certificates that expire soon.
func TestDoctorTellsOfSecurity(t *testing.T) {
	w := newWorld(t)
	cfg := testConfig()
	cfg.Security.ClientsFile = certstest.Write(t, filepath.Join(t.TempDir(), "clients"),
		[]byte("default: a\n"+oneClient))
	cfg.ListenTLS = w.server(t, w.ca.Issue(t, 100*24*time.Hour, "127.0.0.1"), certs.None)
	cfg.AdminTLS = w.server(t, w.ca.Issue(t, time.Hour, "127.0.0.1"), certs.None)
	a, _ := startWith(t, cfg, zap.NewNop())
	found := func() string {
		var all []string
		for _, f := range a.examine(0, false)[3:] {
			if f.Severity > lock.SeverityOK && f.Remedy == "" {
				t.Errorf("%s has no remedy", f.Check)
			}
			detail, _, _ := strings.Cut(f.Detail, " expires ")
			all = append(all, fmt.Sprint(f.Check, " ", f.Severity, ": ", detail))
		}
		return strings.Join(all, "\n")
	}
	const others = "\nSIGNING_KEYS 1: the keys of the issuers of tokens are new\n" +
		"CERTIFICATE 3: that of admin_listen\nCERTIFICATE 1: that of listen"
	digest, _ := a.guard.InForce()
	creds, err := (&client.TLS{CACert: w.ca.File(t)}).Credentials()
	if err != nil {
		t.Fatal(err)
	}
	if len(digest) != 12 || statusOf(t, a, creds).GetClientsFile() != digest {
		t.Errorf("%q is in force, and status tells %q", digest, statusOf(t, a, creds).GetClientsFile())
	}
	if got := found(); got != "CLIENTS_FILE 1: all replicas have the clients file "+digest+others {
		t.Errorf("got %s", got)
	}
	certstest.Write(t, cfg.Security.ClientsFile, []byte("clients: [{}]"))
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if _, stale := a.guard.InForce(); stale {
			break
		}
	}
	if got := found(); got != "CLIENTS_FILE 3: it has a mistake; the one before is in force: "+digest+others {
		t.Errorf("got %s", got)
	}
}

func (w *world) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.ca.PEM())
	return pool
}
