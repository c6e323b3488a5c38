package security

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// cert is what TLS has verified.
func cert(cn, dns, uri string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: cn}, NotAfter: time.Now().Add(time.Hour)}
	if dns != "" {
		c.DNSNames = []string{dns}
	}
	if uri != "" {
		u, _ := url.Parse(uri)
		c.URIs = []*url.URL{u}
	}
	return c
}

func TestWhoIsWho(t *testing.T) {
	huge := strings.Repeat("a", maxTokenBytes+1)
	file := fmt.Sprintf(`
clients:
- {name: prod, cert: "spiffe://prod/*"}
- {name: hosts, cert: ["*"], token_sha256: [%s, %x]}
`, hashOfSecret, sha256.Sum256([]byte(huge)))
	expired := cert("x", "", "")
	expired.NotAfter = time.Now().Add(-time.Second)
	narrow := strings.Replace(file, `["*"]`, `["db.*", ops]`, 1)
	withDefault := narrow + "- {name: guest}\ndefault: guest\n"
	for _, c := range []struct {
		what, file string
		show       Credentials
		want, by   string
	}{
		{"a URI", file, Credentials{Certificate: cert("", "", "spiffe://prod/a")}, "prod", "certificate spiffe://prod/a"},
		{"the first client wins", file, Credentials{Certificate: cert("", "a", "spiffe://prod/a")}, "prod", ""},
		{"the other one", file, Credentials{Certificate: cert("", "", "spiffe://prod")}, "hosts", ""},
		{"a DNS name", narrow, Credentials{Certificate: cert("x", "db.a", "")}, "hosts", "certificate db.a"},
		{"a common name", narrow, Credentials{Certificate: cert("ops", "", "")}, "hosts", "certificate ops"},
		{"a common name beside another", narrow, Credentials{Certificate: cert("ops", "x", "")}, ReasonClientUnknown, ""},
		{
			"a common name like a URI", file,
			Credentials{Certificate: cert("spiffe://prod/a", "", "")},
			ReasonClientUnknown, "",
		},
		{"a DNS name like a URI", file, Credentials{Certificate: cert("", "spiffe://prod/a", "")}, ReasonClientUnknown, ""},
		{"no name", file, Credentials{Certificate: cert("", "", "")}, ReasonClientUnknown, ""},
		{"an expired certificate", file, Credentials{Certificate: expired}, ReasonCertificateEnded, ""},
		{"a token", file, Credentials{Authorization: "bEARER secret"}, "hosts", "token"},
		{"a wrong token", file, Credentials{Authorization: "Bearer public"}, ReasonTokenInvalid, ""},
		{
			"a wrong token beside a certificate", withDefault,
			Credentials{Authorization: "Bearer x", Certificate: cert("ops", "", "")},
			ReasonTokenInvalid, "",
		},
		{"another scheme", withDefault, Credentials{Authorization: "Basic secret"}, ReasonTokenInvalid, ""},
		{"no token", withDefault, Credentials{Authorization: "Bearer "}, ReasonTokenInvalid, ""},
		{
			"a huge token", file,
			Credentials{Authorization: "Bearer " + strings.Repeat("a", maxTokenBytes+1)},
			ReasonTokenInvalid, "",
		},
		{"nothing", file, Credentials{}, ReasonNoCredentials, ""},
		{"nothing, with a default", withDefault, Credentials{}, "guest", "no credentials"},
		{"any certificate by default", withDefault, Credentials{Certificate: cert("x", "", "")}, "guest", "certificate x"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t, c.file)
			i, err := r.Identify(t.Context(), c.show)
			if got := whoIs(t, i, err); got != c.want || c.by != "" && i.By != c.by {
				t.Errorf("got %q by %q, %v", got, i.By, err)
			}
			if err == nil && r.Still(i) != nil {
				t.Errorf("at once it is not: %v", r.Still(i))
			}
			if err != nil && r.refused(c.want) != 1 {
				t.Error("it is not counted")
			}
		})
	}
}

func TestWithoutAFileEverybodyMayDoEverything(t *testing.T) {
	var g *Guard
	i, err := g.Identify(t.Context(), Credentials{Authorization: "x"})
	c := i.Client
	if err != nil || c != nil || i.By != "" || g.Still(i) != nil || c.MayLock("a") != nil || !c.Sees("a") ||
		c.MayTo(ActForce, "a") != nil || c.Name() != "" || c.Tenant() != "" || c.Rights().Lock[0] != "*" ||
		g.EndsHolds() || g.Allowances() != nil {
		t.Errorf("got %+v, %v", i, err)
	}
	g.OnChange(nil)
	g.Audit(Event{Identity: i})
	g.Close()
}

// TestBadTokens changes one thing of a good token for each line.
func TestBadTokens(t *testing.T) {
	known, other := newSigner(t, "1"), newSigner(t, "1")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	encrypts := newSigner(t, "enc")
	forEncryption := encrypts.public()
	forEncryption.Use = "enc"
	forRS512 := jose.JSONWebKey{Key: rsaKey.Public(), KeyID: "512", Algorithm: "RS512"}
	shared := []byte("a secret of 32 bytes in the key set")
	issuer := "https://issuer.example"
	jwks := filepath.Join(t.TempDir(), "keys.json")
	write(t, jwks, textOf(t, known.public(), forEncryption, forRS512,
		jose.JSONWebKey{Key: rsaKey.Public(), KeyID: "rsa"}, jose.JSONWebKey{Key: shared, KeyID: "oct"}))
	r := newRig(t, of(issuer, jwks, "app"))

	at := func(d time.Duration) *jwt.NumericDate { return jwt.NewNumericDate(time.Now().Add(d)) }
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	must(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	with := func(edit func(*jwt.Claims)) string {
		c := claimsNow(issuer, "app-1")
		edit(&c)
		return known.sign(t, c)
	}
	signed := func(alg jose.SignatureAlgorithm, kid string, key any) string {
		with := jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}
		return signWith(t, with, claimsNow(issuer, "app-1"))
	}
	fine := known.sign(t, claimsNow(issuer, "app-1"))
	parts := strings.Split(fine, ".")
	b64 := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	otherClaims := b64(`{"iss":"` + issuer + `","aud":"lockd","sub":"app","exp":9999999999}`)
	for _, c := range []struct{ what, token, want string }{
		{"a good one", fine, "app"},
		{"a good one of RSA", signed(jose.PS256, "rsa", rsaKey), "app"},
		{"expired, but not for long", with(func(c *jwt.Claims) { c.Expiry = at(-leeway / 2) }), "app"},
		{"expired", with(func(c *jwt.Claims) { c.Expiry = at(-2 * leeway) }), ReasonTokenExpired},
		{"not yet valid", with(func(c *jwt.Claims) { c.NotBefore = at(2 * leeway) }), ReasonTokenExpired},
		{"of the future", with(func(c *jwt.Claims) { c.IssuedAt = at(2 * leeway) }), ReasonTokenExpired},
		{"without an end", with(func(c *jwt.Claims) { c.Expiry = nil }), ReasonTokenInvalid},
		{"of nobody", with(func(c *jwt.Claims) { c.Subject = "" }), ReasonTokenInvalid},
		{"for another audience", with(func(c *jwt.Claims) { c.Audience = jwt.Audience{"others"} }), ReasonTokenInvalid},
		{"of another issuer", with(func(c *jwt.Claims) { c.Issuer += "/" }), ReasonTokenInvalid},
		{"of another subject", with(func(c *jwt.Claims) { c.Subject = "web" }), ReasonClientUnknown},
		{"of another key with the id", other.sign(t, claimsNow(issuer, "app-1")), ReasonTokenInvalid},
		{"of an unknown key", signer{known.key, "2"}.sign(t, claimsNow(issuer, "app-1")), ReasonTokenInvalid},
		{"without an id of several keys", signer{known.key, ""}.sign(t, claimsNow(issuer, "app-1")), ReasonTokenInvalid},
		{"with the key of encryption", encrypts.sign(t, claimsNow(issuer, "app-1")), ReasonTokenInvalid},
		{"not of the algorithm of the key", signed(jose.RS256, "512", rsaKey), ReasonTokenInvalid},
		{"of the algorithm of the key", signed(jose.RS512, "512", rsaKey), "app"},
		{"HS256 with the public key", signed(jose.HS256, "rsa", public), ReasonTokenInvalid},
		{"HS256 with the secret in the set", signed(jose.HS256, "oct", shared), ReasonTokenInvalid},
		{"alg none", b64(`{"alg":"none"}`) + "." + parts[1] + ".", ReasonTokenInvalid},
		{"alg none with the signature", b64(`{"alg":"none"}`) + "." + parts[1] + "." + parts[2], ReasonTokenInvalid},
		{"no signature", parts[0] + "." + parts[1] + ".", ReasonTokenInvalid},
		{"other claims", parts[0] + "." + otherClaims + "." + parts[2], ReasonTokenInvalid},
		{"no claims", parts[0] + "." + b64(`7`) + "." + parts[2], ReasonTokenInvalid},
		{"two dots", "..", ReasonTokenInvalid},
	} {
		for range 2 { // the second time it may be kept
			i, err := r.Identify(t.Context(), Credentials{Authorization: "Bearer " + c.token})
			if got := whoIs(t, i, err); got != c.want {
				t.Errorf("%s: got %q, %v, want %q", c.what, got, err, c.want)
			}
			if err == nil && (i.By != "jwt app-1" || i.Expires.IsZero() || i.Until != i.Expires.Add(leeway)) {
				t.Errorf("%s: got %+v", c.what, i)
			}
		}
	}
	if got := r.log.FilterMessageSnippet("cannot").Len(); got != 0 {
		t.Errorf("trouble: %v", r.log.All())
	}
}

// TestKeysOfAnIssuer goes through what happens to them.
func TestKeysOfAnIssuer(t *testing.T) {
	first, second := newSigner(t, "1"), newSigner(t, "2")
	server := newKeyServer(t, textOf(t, first.public()))
	r := newRig(t, of("me", server.URL, "app"))
	one, two := first.sign(t, claimsNow("me", "app")), second.sign(t, claimsNow("me", "app"))
	if got := r.whoHas(t, one); got != "app" {
		t.Fatalf("with the first key: %q", got)
	}
	if got := r.whoHas(t, signer{first.key, ""}.sign(t, claimsNow("me", "app"))); got != "app" {
		t.Errorf("without an id, of the only key: %q", got)
	}

	server.show(textOf(t, second.public()))
	if got := r.whoHas(t, two); got != "app" {
		t.Errorf("after the keys were changed: %q", got)
	}
	if got := r.whoHas(t, one); got != ReasonTokenInvalid {
		t.Errorf("a kept token whose key is gone: %q", got)
	}

	asked := server.times()
	for i := range 100 {
		madeUp := signer{first.key, fmt.Sprint("made up ", i)}
		if got := r.whoHas(t, madeUp.sign(t, claimsNow("me", "app"))); got != ReasonTokenInvalid {
			t.Errorf("with a key that is made up: %q", got)
		}
	}
	if more := server.times() - asked; more > 1 {
		t.Errorf("the issuer was asked %d times because of keys that are made up", more)
	}

	server.show("") // away
	r.askAgain("me")
	r.whoHas(t, one)
	if got := r.whoHas(t, second.sign(t, claimsNow("me", "app-2"))); got != "app" {
		t.Errorf("while the keys are away, with a known one: %q", got)
	}
	if r.log.FilterMessageSnippet("cannot be had").Len() != 1 || r.oldestKeys() <= 0 {
		t.Errorf("that the keys are away is not said: %v", r.log.All())
	}
}

// askAgain lets the time pass after which an issuer is asked again for a key.
func (r *rig) askAgain(name string) {
	s := r.rules.Load().issuers[name].keys
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
}

func TestKeysThatWereNeverHad(t *testing.T) {
	key := newSigner(t, "1")
	server := newKeyServer(t, "")
	r := newRig(t, of("me", server.URL, "app"))
	token := key.sign(t, claimsNow("me", "app"))
	if got := r.whoHas(t, token); got != ReasonKeysUnavailable {
		t.Errorf("while the keys are away: %q", got)
	}
	for _, bad := range []string{"no json", `{"keys":[]}`, strings.Repeat("x", maxKeysBytes+1)} {
		server.show(bad)
		r.askAgain("me")
		if got := r.whoHas(t, token); got != ReasonKeysUnavailable {
			t.Errorf("with bad keys: %q", got)
		}
	}
	server.show(textOf(t, key.public()))
	until(t, "the keys are had", func() bool { return r.whoHas(t, token) == "app" })
}

// TestKeysOfAFileAreReadAgain also tells that a kept token does not outlive its key.
func TestKeysOfAFileAreReadAgain(t *testing.T) {
	t.Parallel()
	first, second := newSigner(t, "1"), newSigner(t, "2")
	jwks := filepath.Join(t.TempDir(), "keys.json")
	write(t, jwks, textOf(t, first.public()))
	r := newRig(t, of("me", jwks, "app"))
	one, two := first.sign(t, claimsNow("me", "app")), second.sign(t, claimsNow("me", "app"))
	if got := r.whoHas(t, one); got != "app" {
		t.Fatalf("with the first key: %q", got)
	}
	write(t, jwks, textOf(t, second.public()))
	until(t, "the first key is gone", func() bool { return r.whoHas(t, one) == ReasonTokenInvalid })
	if got := r.whoHas(t, two); got != "app" {
		t.Errorf("with the second key: %q", got)
	}
}

func TestASlowIssuerHoldsUpNobodyElse(t *testing.T) {
	key := newSigner(t, "1")
	slow, quick := newKeyServer(t, textOf(t, key.public())), newKeyServer(t, textOf(t, key.public()))
	slow.locked.Lock()
	file := of("slow", slow.URL, "app") + strings.TrimPrefix(of("quick", quick.URL, "web"), "clients:\n")
	r := newRig(t, file)
	answers := make(chan string, 50)
	for range cap(answers) {
		go func() { answers <- r.whoHas(t, key.sign(t, claimsNow("slow", "app"))) }()
	}
	if got := r.whoHas(t, key.sign(t, claimsNow("quick", "web"))); got != "web" {
		t.Errorf("beside a slow issuer: %q", got)
	}
	slow.locked.Unlock()
	for range cap(answers) {
		if got := <-answers; got != "app" {
			t.Errorf("with a slow issuer: %q", got)
		}
	}
	if got := slow.times(); got > 2 {
		t.Errorf("the slow issuer was asked %d times", got)
	}
}

// TestAnIssuerSaysWhereItsKeysAre has one that wants a token, as that of Kubernetes does.
func TestAnIssuerSaysWhereItsKeysAre(t *testing.T) {
	key := newSigner(t, "1")
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-lockd" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	defer server.Close()
	says := func(where, issuer, uri string) {
		mux.HandleFunc(where+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, issuer, uri)
		})
	}
	says("/good", server.URL+"/good", server.URL+"/keys")
	says("/liar", server.URL+"/good", server.URL+"/keys")
	says("/unsafe", server.URL+"/unsafe", strings.Replace(server.URL, "//", "//user:password@", 1)+"/keys")
	says("/away", server.URL+"/away", server.URL+"/away/keys")
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(textOf(t, key.public())))
	})
	leak := newKeyServer(t, textOf(t, key.public()))
	mux.Handle("/away/keys", http.RedirectHandler(leak.URL, http.StatusFound))

	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	write(t, token, "of-lockd\n")
	for _, where := range []string{"/good", "/liar", "/unsafe", "/away", "/404"} {
		_, err := source{ca: ca, token: token}.load(t.Context(), server.URL+where)
		if (err == nil) != (where == "/good") || err != nil && strings.Contains(err.Error(), "of-lockd") {
			t.Errorf("%s: %v", where, err)
		}
	}
	if _, err := (source{token: token}).load(t.Context(), server.URL+"/good"); err == nil {
		t.Error("an issuer whose authority is not known was believed")
	}
	plain := httptest.NewServer(http.RedirectHandler(leak.URL, http.StatusFound))
	defer plain.Close()
	if _, err := (source{jwks: plain.URL}).load(t.Context(), "me"); err == nil {
		t.Error("the keys of another host were believed")
	}
	if leak.times() != 0 {
		t.Error("another host was asked")
	}
}

func TestKeptTokensAreBounded(t *testing.T) {
	var k kept
	for i := range maxKept + 100 {
		k.put(sha256.Sum256(fmt.Append(nil, i)), &verified{bytes: 1000})
	}
	if len(k.all) != maxKept || k.bytes != 1000*maxKept {
		t.Errorf("%d are kept, of %d bytes", len(k.all), k.bytes)
	}
	for i := range maxKept {
		k.put(sha256.Sum256(fmt.Append(nil, i)), &verified{bytes: maxTokenBytes})
	}
	if n := len(k.all); k.bytes > maxKeptBytes || n < maxKeptBytes/maxTokenBytes {
		t.Errorf("%d long ones are kept, of %d bytes", n, k.bytes)
	}
}

// FuzzToken shows what is no token. Nobody is let in with it, and nothing breaks.
func FuzzToken(f *testing.F) {
	key, other := newSigner(f, "1"), newSigner(f, "1")
	jwks := filepath.Join(f.TempDir(), "keys.json")
	write(f, jwks, textOf(f, key.public()))
	r := newRig(f, of("me", jwks, "app")+"- {name: a, token_sha256: ["+hashOfSecret+"]}\n- {name: d}\ndefault: d\n")
	bad := other.sign(f, claimsNow("me", "app"))
	parts := strings.Split(key.sign(f, claimsNow("me", "app")), ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for _, s := range []string{
		"x", "Bearer", "Bearer ", "Bearer x", "Basic secret", "Bearer " + bad, "Bearer " + none + "." + parts[1] + ".",
		"Bearer " + parts[0] + "." + parts[1] + ".", "Bearer " + hashOfSecret, "bearer ..",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, authorization string) {
		if authorization == "" {
			return
		}
		if i, err := r.Identify(t.Context(), Credentials{Authorization: authorization}); err == nil {
			t.Errorf("%q is %q", authorization, i.Client.Name())
		}
	})
}

func BenchmarkIdentifyKeptToken(b *testing.B) {
	key := newSigner(b, "1")
	jwks := filepath.Join(b.TempDir(), "keys.json")
	write(b, jwks, textOf(b, key.public()))
	r := newRig(b, of("me", jwks, "app"))
	c := Credentials{Authorization: "Bearer " + key.sign(b, claimsNow("me", "app"))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Identify(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

// Tokens with keys that nobody knows have few wait for the issuer, and no others.
func TestFewWaitForAnIssuer(t *testing.T) {
	known, stranger := newSigner(t, "known"), newSigner(t, "unknown")
	keys := newKeyServer(t, textOf(t, known.public()))
	r := newRig(t, of(keys.URL, keys.URL, "ci"))
	good := known.sign(t, claimsNow(keys.URL, "ci"))
	until(t, "the keys are had", func() bool { return r.whoHas(t, good) == "ci" })
	keys.locked.Lock()
	token := stranger.sign(t, claimsNow(keys.URL, "ci"))
	said := make(chan error, maxAsking+1)
	for range maxAsking + 1 {
		go func() {
			_, err := r.Identify(t.Context(), Credentials{Authorization: "Bearer " + token})
			said <- err
		}()
	}
	if got := whoIs(t, Identity{}, <-said); got != ReasonKeysUnavailable {
		t.Errorf("one too many: got %s", got)
	}
	if got := r.whoHas(t, good); got != "ci" {
		t.Errorf("who has a known key: got %s", got)
	}
	keys.locked.Unlock()
	for range maxAsking {
		if got := whoIs(t, Identity{}, <-said); got != ReasonTokenInvalid {
			t.Fatalf("one who waited: got %s", got)
		}
	}
}
