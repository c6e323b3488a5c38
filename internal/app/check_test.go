package app

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
)

// oneClient is a clients file. Nobody has the token.
const oneClient = `clients:
- name: a
  token_sha256: "0000000000000000000000000000000000000000000000000000000000000000"
  lock: "*"
`

func TestCheckReadsEveryFile(t *testing.T) {
	authority := certstest.NewAuthority(t, "the authority")
	ca := authority.File(t)
	cert, key := authority.Issue(t, 100*time.Hour, "lockd.test").Files(t)
	_, otherKey := authority.Issue(t, time.Hour, "other").Files(t)
	oldCert, oldKey := authority.IssueFrom(t, -2*time.Hour, -time.Hour, "old").Files(t)
	password := certstest.Write(t, filepath.Join(t.TempDir(), "password"), []byte("hunter2\n"))
	clients := certstest.Write(t, filepath.Join(t.TempDir(), "clients"), []byte(oneClient))
	wrong := certstest.Write(t, filepath.Join(t.TempDir(), "wrong"), []byte("clients:\n- name: a\n"))
	withKeys := func(jwks string) string {
		text := oneClient + "- name: b\n  jwt: {issuer: i, audience: lockd, sub: s, jwks: " + jwks + "}\n"
		return certstest.Write(t, filepath.Join(t.TempDir(), "clients"), []byte(text))
	}
	dir := t.TempDir()
	good := certs.Files{
		CertFile: cert, KeyFile: secret.File(key), ClientCerts: certs.Required, ClientCAFile: ca,
	}
	redis := topology.TLS{Enabled: true, CAFile: ca, CertFile: cert, KeyFile: secret.File(key)}
	members := []string{"127.0.0.1:1", "127.0.0.1:2", "sentinel://m@127.0.0.1:3"}

	for want, edit := range map[string]func(*config.Config){
		"": func(c *config.Config) {},
		"ops_tls.cert_file: open nowhere": func(c *config.Config) {
			c.OpsTLS.CertFile = "nowhere"
		},
		"admin_tls.key_file: open nowhere": func(c *config.Config) { c.AdminTLS.KeyFile = "nowhere" },
		"listen_tls.cert_file, key_file: ": func(c *config.Config) { c.ListenTLS.KeyFile = secret.File(otherKey) },
		"listen_tls.cert_file: the certificate expired at": func(c *config.Config) {
			c.ListenTLS.CertFile, c.ListenTLS.KeyFile = oldCert, secret.File(oldKey)
		},
		"listen_tls.client_ca_file: no certificate in it": func(c *config.Config) { c.ListenTLS.ClientCAFile = key },
		"redis.password_file: ":                           func(c *config.Config) { c.Redis.PasswordFile = "nowhere" },
		"redis.tls.ca_file: open nowhere":                 func(c *config.Config) { c.Redis.TLS.CAFile = "nowhere" },
		"redis.tls.cert_file, redis.tls.key_file: ":       func(c *config.Config) { c.Redis.TLS.CertFile = "nowhere" },
		"redis.tls.cert_file: the certificate expired at": func(c *config.Config) {
			c.Redis.TLS.CertFile, c.Redis.TLS.KeyFile = oldCert, secret.File(oldKey)
		},
		"security.clients_file: open nowhere":    func(c *config.Config) { c.Security.ClientsFile = "nowhere" },
		"line 2: nobody can be the client \"a\"": func(c *config.Config) { c.Security.ClientsFile = wrong },
		"security.audit: open nowhere/":          func(c *config.Config) { c.Security.Audit = "nowhere/audit" },
		`the issuer "i": jwks nowhere: open nowhere`: func(c *config.Config) {
			c.Security.ClientsFile = withKeys("nowhere")
		},
		"it is no JSON Web Key Set":      func(c *config.Config) { c.Security.ClientsFile = withKeys(password) },
		"redis.sentinel.password_file: ": func(c *config.Config) { c.Redis.Sentinel.PasswordFile = "nowhere" },
	} {
		c := config.Default()
		c.ListenTLS, c.OpsTLS, c.AdminTLS = good, good, good
		c.Store.Kind, c.Redlock.Members = topology.Redlock, members
		c.Redis.TLS, c.Redis.PasswordFile = redis, secret.File(password)
		c.Security.ClientsFile, c.Security.Audit = clients, filepath.Join(dir, "audit.json")
		edit(&c)
		err := Check(c)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("it tells a password: %v", err)
		}
	}
	if left, err := filepath.Glob(dir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("it leaves %q behind, %v", left, err)
	}
}
