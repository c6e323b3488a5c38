package security

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// rig is a Guard with its clients file.
type rig struct {
	*Guard
	path string
	log  *observer.ObservedLogs
}

func newRig(t testing.TB, file string) *rig {
	t.Helper()
	r := &rig{path: filepath.Join(t.TempDir(), "clients.yaml")}
	write(t, r.path, file)
	r.open(t, Config{File: r.path})
	return r
}

func (r *rig) open(t testing.TB, cfg Config) {
	t.Helper()
	core, log := observer.New(zapcore.InfoLevel)
	var err error
	r.log = log
	if r.Guard, err = Open(cfg, zap.New(core), prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
}

// write replaces a file, all of it at once.
func write(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(t, os.Rename(path+".new", path))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a state.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// who is the name of the client who shows credentials, or why there is none.
func (r *rig) who(t testing.TB, c Credentials) string {
	t.Helper()
	i, err := r.Identify(t.Context(), c)
	return whoIs(t, i, err)
}

func whoIs(t testing.TB, i Identity, err error) string {
	t.Helper()
	if err == nil {
		return i.Client.Name()
	}
	e, is := errors.AsType[*UnauthenticatedError](err)
	if !is || i.Client != nil || !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("got %+v, %v", i, err)
	}
	return e.Reason
}

func (r *rig) whoHas(t testing.TB, token string) string {
	t.Helper()
	return r.who(t, Credentials{Authorization: "Bearer " + token})
}

func (r *rig) refused(reason string) float64 {
	return valueOf(r.m.unauthenticated.WithLabelValues(reason))
}

// valueOf is that of a counter or gauge.
func valueOf(m prometheus.Metric) float64 {
	var d dto.Metric
	_ = m.Write(&d) // never fails
	return d.GetCounter().GetValue() + d.GetGauge().GetValue()
}

// signer makes tokens.
type signer struct {
	key crypto.Signer
	kid string
}

func newSigner(t testing.TB, kid string) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return signer{key, kid}
}

// public is the signer's key as an issuer shows it.
func (s signer) public() jose.JSONWebKey { return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.kid} }

// claimsNow are good for an hour.
func claimsNow(issuer, subject string) jwt.Claims {
	return jwt.Claims{
		Issuer: issuer, Subject: subject, Audience: jwt.Audience{"others", "lockd"},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
	}
}

func (s signer) sign(t testing.TB, c jwt.Claims) string {
	t.Helper()
	return signWith(t, jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: s.key, KeyID: s.kid}}, c)
}

func signWith(t testing.TB, key jose.SigningKey, c jwt.Claims) string {
	t.Helper()
	s, err := jose.NewSigner(key, nil)
	must(t, err)
	token, err := jwt.Signed(s).Claims(c).Serialize()
	must(t, err)
	return token
}

func textOf(t testing.TB, keys ...jose.JSONWebKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	must(t, err)
	return string(text)
}

// keyServer shows keys.
type keyServer struct {
	*httptest.Server
	mu     sync.Mutex // guards the fields below
	text   string     // empty: the keys are away
	asked  int
	locked sync.Mutex // held: no answer
}

func newKeyServer(t testing.TB, text string) *keyServer {
	t.Helper()
	s := &keyServer{text: text}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.locked.Lock()
		defer s.locked.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		if s.text == "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(s.text)) // its client may have gone
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *keyServer) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// of is a clients file with clients that have tokens of an issuer, with the subjects that begin with their names.
func of(issuer, jwks string, clients ...string) string {
	var text strings.Builder
	text.WriteString("clients:\n")
	for _, c := range slices.Compact(clients) {
		text.WriteString("- {name: " + c + ", lock: ['*'], jwt: {issuer: '" + issuer + "', audience: lockd, sub: '" + c +
			"*', jwks: '" + jwks + "'}}\n")
	}
	return text.String()
}
