package app

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/secret"
)

func TestTheConsoleIsServedWhereItIsAskedFor(t *testing.T) {
	cfg := testConfig()
	if a, stop := start(t, cfg); a.ConsoleURL() != "" {
		t.Errorf("it is at %s without being asked for", a.ConsoleURL())
	} else {
		must(t, stop())
	}
	cfg.ConsoleListen, cfg.Console.Path = "127.0.0.1:0", "/locks"
	a, stop := start(t, cfg)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(a.ConsoleURL())
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `href="/locks/sessions"`) {
		t.Errorf("got %s: %s", resp.Status, body)
	}
	// A page that is open does not hold up the stop: it comes to its end, and is not cut off when that is late.
	open, err := client.Get(a.ConsoleURL() + "live/")
	must(t, err)
	defer func() { _ = open.Body.Close() }()
	if _, err = open.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	must(t, stop())
	if _, err := io.ReadAll(open.Body); err != nil {
		t.Errorf("the page was cut off, because it did not end in time: %v", err)
	}
}

// The console knows its reader by a certificate, as clients are known, and speaks TLS as its own section says.
func TestTheConsoleKnowsCertificates(t *testing.T) {
	w := newWorld(t)
	cfg := testConfig()
	cfg.Security.ClientsFile = certstest.Write(t, filepath.Join(t.TempDir(), "clients"),
		[]byte("clients:\n- {name: reader, cert: a client, look: ['*']}\n"))
	cfg.ConsoleListen = "127.0.0.1:0"
	cfg.ConsoleTLS = w.server(t, w.ca.Issue(t, time.Hour, "127.0.0.1"), certs.Optional)
	a, stop := start(t, cfg)
	defer func() { must(t, stop()) }()
	if !strings.HasPrefix(a.ConsoleURL(), "https://") {
		t.Errorf("it is at %s", a.ConsoleURL())
	}
	shown, err := tls.LoadX509KeyPair(w.good.Cert, w.good.Key)
	must(t, err)
	for _, row := range []struct {
		shows []tls.Certificate
		want  string
	}{{[]tls.Certificate{shown}, "<bdi>reader</bdi>"}, {nil, "Log in"}} {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: w.pool(), Certificates: row.shows},
		}}
		resp, err := client.Get(a.ConsoleURL())
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		_ = resp.Body.Close()
		if !strings.Contains(string(body), row.want) {
			t.Errorf("with %d certificates: got %s %s, want %s", len(row.shows), resp.Status, body, row.want)
		}
	}
	resp, err := (&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: w.pool()},
	}}).PostForm(a.ConsoleURL()+"login", url.Values{"token": {"none"}})
	must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token: %s", resp.Status)
	}
}

func TestTheKeyOfTheConsoleIsRead(t *testing.T) {
	cfg := testConfig()
	cfg.ConsoleListen = "127.0.0.1:0"
	cfg.Console.KeyFile = secret.File(certstest.Write(t, filepath.Join(t.TempDir(), "key"), []byte("short")))
	if err := Check(cfg); err == nil || !strings.Contains(err.Error(), "console.key_file: ") {
		t.Errorf("got %v", err)
	}
	if _, err := New(cfg, zap.NewNop()); !errors.Is(err, ErrConfig) {
		t.Errorf("got %v, want ErrConfig", err)
	}
}
