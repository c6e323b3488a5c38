package httpjson

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

const token = "0f9a3c6c2b7d4f5f8d0e6a1b9c7d5e3f"

const clientsFile = `
clients:
- name: billing
  cert: "spiffe://prod/ns/billing/*"
  lock: ["invoice:*"]
  look: ["*"]
  quota: {requests_per_second: 1000}
- name: ops
  token_sha256: ["%x"]
  lock: ["*"]
  admin: [force]
`

// secured is a lockd with TLS and a clients file, whose client has no certificate.
type secured struct {
	*world
	clients, server   *certstest.Authority
	cert, key, audit  string
	serverCA, trusted string
}

func newSecured(t testing.TB) *secured {
	s := &secured{clients: certstest.NewAuthority(t, "clients"), server: certstest.NewAuthority(t, "lockd")}
	dir := t.TempDir()
	s.audit, s.serverCA, s.trusted = filepath.Join(dir, "audit"), s.server.File(t), s.clients.File(t)
	s.cert, s.key = s.server.Issue(t, time.Hour, "127.0.0.1").Files(t)
	file := certstest.Write(t, filepath.Join(dir, "clients.yaml"),
		fmt.Appendf(nil, clientsFile, sha256.Sum256([]byte(token))))
	s.world = newWorld(t,
		"LOCKD_SECURITY_REQUIRE=true", "LOCKD_SECURITY_CLIENTS_FILE="+file, "LOCKD_SECURITY_AUDIT="+s.audit,
		"LOCKD_LISTEN_TLS_CERT_FILE="+s.cert, "LOCKD_LISTEN_TLS_KEY_FILE="+s.key,
		"LOCKD_LISTEN_TLS_CLIENT_CERTS=optional", "LOCKD_LISTEN_TLS_CLIENT_CA_FILE="+s.trusted)
	s.scheme = "https://"
	s.show(client.TLS{CACert: s.serverCA})
	return s
}

// show has the client come anew with a certificate, or without one.
func (s *secured) show(c client.TLS) {
	s.t.Helper()
	s.client = &http.Client{Transport: &http.Transport{TLSClientConfig: s.config(c)}, Timeout: harness.Patience}
	s.t.Cleanup(s.client.CloseIdleConnections)
}

func (s *secured) config(c client.TLS) *tls.Config {
	s.t.Helper()
	text, err := os.ReadFile(c.CACert)
	harness.Must(s.t, err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(text)
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		harness.Must(s.t, err)
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// Clients are who they are by gRPC, with the same rights, and no header makes them come from elsewhere.
func TestWhoComes(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	a := s.ask(http.StatusUnauthorized, "GET", "/v1/whoami", "")
	if a.reason() != "NO_CREDENTIALS" || a.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("nobody is told %s", a.text)
	}
	a = s.ask(http.StatusUnauthorized, "GET", "/v1/whoami", "", "Authorization", "Bearer wrong")
	if a.reason() != "TOKEN_INVALID" {
		t.Errorf("a wrong token is told %s", a.text)
	}
	ops := []string{"Authorization", "Bearer " + token}
	a = s.ask(http.StatusOK, "GET", "/v1/whoami", "", append(ops,
		"X-Forwarded-For", "192.0.2.1", "Forwarded", "for=192.0.2.1", "X-Real-Ip", "192.0.2.1",
		"Grpc-Metadata-Authorization", "Bearer wrong")...)
	peer, _ := a.get("peer").(string)
	if a.get("client") != "ops" || !strings.HasPrefix(peer, "127.0.0.1:") {
		t.Errorf("the token is of %s", a.text)
	}

	pair := client.TLS{CACert: s.serverCA}
	pair.Cert, pair.Key = s.clients.Issue(t, time.Hour, "spiffe://prod/ns/billing/a").Files(t)
	s.show(pair)
	if a = s.ask(http.StatusOK, "GET", "/v1/whoami", ""); a.get("client") != "billing" {
		t.Errorf("the certificate is of %s", a.text)
	}
	id := s.acquire("invoice:1")
	a = s.ask(http.StatusForbidden, "POST", "/v1/acquire", body("name", "other", "lease", "60s"))
	if a.reason() != "FORBIDDEN" {
		t.Errorf("what it may not is told %s", a.text)
	}
	s.ask(http.StatusForbidden, "POST", "/v1/force-release", body("name", "invoice:1"))
	// The lease is of the client that took it, whoever knows its id.
	s.ask(http.StatusBadRequest, "POST", "/v1/release", body("name", "invoice:1", "leaseId", id), ops...)
	a = s.ask(http.StatusOK, "POST", "/v1/force-release", body("name", "invoice:1"), ops...)
	if a.get("released") != true {
		t.Errorf("an operator is told %s", a.text)
	}
	for _, want := range []string{"NO_CREDENTIALS", "TOKEN_INVALID", "FORBIDDEN", "AdminService/ForceRelease"} {
		harness.Until(t, "the audit has "+want, func() bool { // it is written in the background
			text, err := os.ReadFile(s.audit)
			harness.Must(t, err)
			return strings.Contains(string(text), want)
		})
	}
}

// The certificate is read again, and a client of gRPC is told where it is.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	creds, err := (&client.TLS{CACert: s.serverCA}).Credentials()
	harness.Must(t, err)
	cc, err := grpc.NewClient(s.HTTP, grpc.WithTransportCredentials(creds))
	harness.Must(t, err)
	defer func() { _ = cc.Close() }()
	wantWrongAddress(t, cc)

	other := certstest.NewAuthority(t, "another lockd")
	cert, key := other.Issue(t, time.Hour, "127.0.0.1").Files(t)
	for from, to := range map[string]string{cert: s.cert, key: s.key} {
		text, err := os.ReadFile(from)
		harness.Must(t, err)
		certstest.Write(t, to, text)
	}
	harness.Until(t, "the certificate is another one", func() bool {
		s.show(client.TLS{CACert: other.File(t)})
		_, err := s.try(t.Context(), "GET", "/v1/whoami", "")
		return err == nil
	})
	// The same at the address of gRPC, which HTTP comes to by HTTP/2.
	transport := &http.Transport{
		TLSClientConfig: s.config(client.TLS{CACert: other.File(t)}), ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	url := "https://" + s.Addr + "/v1/acquire"
	harness.Until(t, "it is told that gRPC is spoken there, by who has the other certificate", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("{}"))
		harness.Must(t, err)
		r.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(r)
		if err != nil { // the certificate is not read again yet
			return false
		}
		_ = resp.Body.Close()
		return strings.Contains(resp.Header.Get("Grpc-Message"), "gRPC")
	})
}
