package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/config"
)

// write writes a file as an operator does who changes a secret.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestPasswordsAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write(t, file, "first\n")
	c := config.Default().Redis
	c.PasswordFile, c.Sentinel.PasswordFile = config.SecretFile(file), config.SecretFile(file)
	cfg, err := redisConfig(config.StoreSentinel, c)
	if err != nil {
		t.Fatal(err)
	}
	want := func(password string) {
		t.Helper()
		if a, b := cfg.PasswordNow(), cfg.Sentinel.PasswordNow(); a != password || b != password {
			t.Errorf("got %q for the servers and %q for the sentinels, want %q", a, b, password)
		}
	}
	want("first")
	write(t, file, "second\n")
	want("second")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	want("second") // the last one that could be read
	if _, err := redisConfig(config.StoreSentinel, c); err == nil {
		t.Error("lockd begins without the file that its configuration names")
	}
	c.PasswordFile, c.Sentinel.PasswordFile = "", ""
	if cfg, err = redisConfig(config.StoreSentinel, c); err != nil || cfg.PasswordNow != nil ||
		cfg.Sentinel.PasswordNow != nil {
		t.Errorf("got %v and a password where there is none", err)
	}
}

func TestTheCertificateOfLockdIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	c := config.Default().Redis.TLS
	c.Enabled, c.CertFile, c.KeyFile = true, filepath.Join(dir, "tls.crt"),
		config.SecretFile(filepath.Join(dir, "tls.key"))
	issue := func(serial int64) []byte {
		t.Helper()
		der, certificate, key := issued(t, serial)
		write(t, c.CertFile, certificate)
		write(t, string(c.KeyFile), key)
		return der
	}
	first := issue(1)
	cfg, err := redisTLS(c)
	if err != nil {
		t.Fatal(err)
	}
	want := func(der []byte) {
		t.Helper()
		pair, err := cfg.Clone().GetClientCertificate(new(tls.CertificateRequestInfo))
		if err != nil || !bytes.Equal(pair.Certificate[0], der) {
			t.Errorf("got %v and another certificate", err)
		}
	}
	want(first)
	second := issue(2)
	want(second)
	write(t, c.CertFile, "half")
	want(second)
}

// issued is a certificate that signs itself, and its files.
func issued(t *testing.T, serial int64) (der []byte, certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now(),
		NotAfter: time.Now().Add(time.Hour),
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, template, private.Public(), private); err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return der, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}
