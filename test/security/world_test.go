package security

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

var lockdBin string

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, harness.Settings{Before: func() (err error) {
		lockdBin, err = harness.Build("lockd")
		return err
	}}))
}

// issuer makes tokens, and tells its keys over HTTP.
type issuer struct {
	*httptest.Server
	t testing.TB

	mu    sync.Mutex // guards the fields below
	keys  map[string]*ecdsa.PrivateKey
	told  []string // the ids of those that are told
	away  bool
	asked int
}

func newIssuer(t testing.TB) *issuer {
	i := &issuer{t: t, keys: make(map[string]*ecdsa.PrivateKey)}
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	i.rotate("first")
	return i
}

// rotate has only this key be told.
func (i *issuer) rotate(kid string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(i.t, err)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys[kid], i.told = key, []string{kid}
}

func (i *issuer) leave(away bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.away = away
}

func (i *issuer) serve(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if i.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	var set jose.JSONWebKeySet
	for _, kid := range i.told {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: i.keys[kid].Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"})
	}
	_ = json.NewEncoder(w).Encode(set)
}

// public is a key as an attacker sees it.
func (i *issuer) public(kid string) []byte {
	i.mu.Lock()
	defer i.mu.Unlock()
	der, err := x509.MarshalPKIXPublicKey(i.keys[kid].Public())
	harness.Must(i.t, err)
	return der
}

// claims are those of a good token.
func (i *issuer) claims(valid time.Duration) jwt.Claims {
	return jwt.Claims{
		Issuer: i.URL, Subject: "repo:acme/shop", Audience: jwt.Audience{"lockd"},
		IssuedAt: jwt.NewNumericDate(time.Now().Add(-time.Hour)), Expiry: jwt.NewNumericDate(time.Now().Add(valid)),
	}
}

// token is signed by one of the keys.
func (i *issuer) token(kid string, c jwt.Claims) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := i.keys[kid]
	if key == nil { // nobody tells it
		key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return signed(i.t, jose.ES256, key, kid, c)
}

func signed(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, c jwt.Claims) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", kid))
	harness.Must(t, err)
	text, err := jwt.Signed(signer).Claims(c).Serialize()
	harness.Must(t, err)
	return text
}

// world is a lockd with TLS and a clients file, and those who come to it.
type world struct {
	*harness.Lockd
	t            testing.TB
	ca, stranger *certstest.Authority
	issuer       *issuer
	file, audit  string
	serverCA     string
	cert, key    string // lockd's own
	clientCA     string
}

const staticToken = "0f9a3c6c2b7d4f5f8d0e6a1b9c7d5e3f"

// firstFile is the clients file that a world begins with.
const firstFile = `
clients:
- name: billing
  cert: "spiffe://prod/ns/billing/*"
  lock: ["invoice:*", "rates"]
  look: ["*"]
- name: ci
  jwt: {issuer: "%[1]s", audience: lockd, sub: "repo:acme/*", jwks: "%[1]s/keys"}
  lock: ["ci:*"]
  deny: ["ci:prod-*"]
- name: ops
  token_sha256: ["%[2]x"]
  lock: ["*"]
  admin: [force, limit, drain, examine]
`

// newWorld starts a lockd, after what is done before.
func newWorld(t testing.TB, before ...func(*world)) *world {
	w := &world{
		t: t, ca: certstest.NewAuthority(t, "clients"), stranger: certstest.NewAuthority(t, "a stranger"),
		issuer: newIssuer(t),
	}
	dir := t.TempDir()
	server := certstest.NewAuthority(t, "lockd")
	w.serverCA = server.File(t)
	w.cert, w.key = server.Issue(t, time.Hour, "127.0.0.1").Files(t)
	w.clientCA = w.ca.File(t)
	w.file, w.audit = filepath.Join(dir, "clients.yaml"), filepath.Join(dir, "audit.log")
	w.write(fmt.Sprintf(firstFile, w.issuer.URL, sha256.Sum256([]byte(staticToken))))
	for _, do := range before {
		do(w)
	}
	w.Lockd = harness.StartLockdOn(t, lockdBin,
		"LOCKD_STORE_KIND=memory", "LOCKD_SECURITY_CLIENTS_FILE="+w.file, "LOCKD_SECURITY_AUDIT="+w.audit,
		"LOCKD_LISTEN_TLS_CERT_FILE="+w.cert, "LOCKD_LISTEN_TLS_KEY_FILE="+w.key,
		"LOCKD_LISTEN_TLS_CLIENT_CERTS=optional", "LOCKD_LISTEN_TLS_CLIENT_CA_FILE="+w.clientCA)
	return w
}

// write replaces the clients file.
func (w *world) write(text string) { certstest.Write(w.t, w.file, []byte(text)) }

// applied waits until lockd has another clients file.
func (w *world) applied(text string) {
	w.t.Helper()
	before := w.Metric("lockd_clients_file_applied_timestamp_seconds")
	w.write(text)
	harness.Until(w.t, "the file is applied", func() bool {
		return w.Metric("lockd_clients_file_applied_timestamp_seconds") > before
	})
}

// as is a client's certificate.
func (w *world) as(p certstest.Pair) client.TLS {
	c := client.TLS{CACert: w.serverCA}
	c.Cert, c.Key = p.Files(w.t)
	return c
}

// billing is the certificate of the client of that name.
func (w *world) billing() client.TLS {
	return w.as(w.ca.Issue(w.t, time.Hour, "spiffe://prod/ns/billing/a"))
}

// conn is a connection with a certificate, or without one, and with a header, or without one.
func (w *world) conn(as *client.TLS, authorization string) *grpc.ClientConn {
	w.t.Helper()
	if as == nil {
		as = &client.TLS{CACert: w.serverCA}
	}
	creds, err := as.Credentials()
	harness.Must(w.t, err)
	return w.dial(creds, authorization)
}

func (w *world) dial(creds credentials.TransportCredentials, authorization string) *grpc.ClientConn {
	show := func(ctx context.Context) context.Context {
		if authorization == "" {
			return ctx
		}
		return metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
	}
	cc, err := grpc.NewClient(w.Addr, grpc.WithTransportCredentials(creds),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			call grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			return call(show(ctx), method, req, reply, cc, opts...)
		}),
		grpc.WithStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string,
			streamer grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			return streamer(show(ctx), d, cc, method, opts...)
		}))
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// bearer is the header that shows a token.
func bearer(token string) string { return "Bearer " + token }
