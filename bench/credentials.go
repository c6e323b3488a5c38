package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockd-io/lockd/client"
)

// credentials are files in a directory: what a client shows, and what lockd knows of it.
type credentials struct {
	dir         string
	cert, key   string // of lockd and of the client, and the authority of both
	jwt, static string // tokens
	clients     string // the clients file
	audit       string
}

const (
	benchID     = "spiffe://bench/measured"
	benchIssuer = "https://issuer.bench"
	// manyPatterns is how many patterns the client has, and how many the others have together.
	manyPatterns = 1_000
	otherClients = 20
)

// newCredentials writes them all.
func newCredentials() (c credentials, err error) {
	if c.dir, err = os.MkdirTemp("", "lockd-bench-"); err != nil {
		return c, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	in := func(name string) string { return filepath.Join(c.dir, name) }
	c.cert, c.key, c.jwt, c.static = in("tls.crt"), in("tls.key"), in("jwt"), in("token")
	c.clients, c.audit = in("clients.yaml"), in("audit.json")
	jwks, token := in("jwks.json"), rand.Text()
	signed, err := signedToken(key)
	if err != nil {
		return c, err
	}
	cert, secret, err := selfSigned(key)
	if err != nil {
		return c, err
	}
	keys, err := keysOf(key)
	if err != nil {
		return c, err
	}
	for path, text := range map[string]string{
		c.cert: cert, c.key: secret, c.jwt: signed, c.static: token, jwks: keys, c.clients: clientsFile(jwks, token),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c credentials) remove() { _ = os.RemoveAll(c.dir) }

// tls is how a client speaks TLS, with or without a certificate of its own.
func (c credentials) tls(mutual bool) client.TLS {
	t := client.TLS{CACert: c.cert}
	if mutual {
		t.Cert, t.Key = c.cert, c.key
	}
	return t
}

// selfSigned is a certificate that is its own authority, for a server and for a client.
func selfSigned(key *ecdsa.PrivateKey) (cert, secret string, err error) {
	id, err := url.Parse(benchID)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, URIs: []*url.URL{id},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return "", "", err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", "", err
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", private), nil
}

// signedToken is a JWT of the issuer, about as long as one of a service account.
func signedToken(key *ecdsa.PrivateKey) (string, error) {
	header := []byte(`{"alg":"ES256","kid":"1"}`)
	claims, err := json.Marshal(map[string]any{
		"iss": benchIssuer, "aud": "lockd", "sub": "measured", "exp": time.Now().Add(24 * time.Hour).Unix(),
		"about": strings.Repeat("x", 400),
	})
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(header) + "." + base64.RawURLEncoding.EncodeToString(claims)
	hash := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, hash[:])
	if err != nil {
		return "", err
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// keysOf is the JWKS of the issuer.
func keysOf(key *ecdsa.PrivateKey) (string, error) {
	point, err := key.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		return "", err
	}
	x, y := base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:])
	return fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":%q,"y":%q}]}`, x, y), nil
}

// clientsFile has the client that is measured behind others. All have quotas, which nobody reaches.
func clientsFile(jwks, token string) string {
	hash := sha256.Sum256([]byte(token))
	const quota = "  quota: {sessions: 10000, locks: 100000, waiting: 100000, watches: 100000, " +
		"requests_per_second: 1000000, streams: 10000}\n"
	var b strings.Builder
	b.WriteString("clients:\n")
	for i := range otherClients {
		fmt.Fprintf(&b, "- name: other-%d\n  cert: \"spiffe://other-%d/*\"\n  lock: [%s]\n%s", i, i,
			patterns(fmt.Sprintf("other-%d-", i), manyPatterns/otherClients), quota)
	}
	fmt.Fprintf(&b, "- name: measured\n  cert: %q\n  token_sha256: [%s]\n", benchID, hex.EncodeToString(hash[:]))
	fmt.Fprintf(&b, "  jwt: {issuer: %q, audience: lockd, sub: measured, jwks: %q}\n", benchIssuer, jwks)
	fmt.Fprintf(&b, "  lock: [%s, \"bench:*\"]\n  deny: [\"bench:denied-*\"]\n", patterns("team-", manyPatterns-2))
	b.WriteString(quota)
	return b.String()
}

// patterns are half names and half beginnings, with YAML's commas between them.
func patterns(prefix string, n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%q", fmt.Sprintf("%s%d:orders%s", prefix, i, []string{"", ":*"}[i%2]))
	}
	return strings.Join(all, ", ")
}
