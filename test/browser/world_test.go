package browser

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

var lockdBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{Before: func() (err error) {
		lockdBin, err = harness.Build("lockd")
		return err
	}}))
}

// The tokens of the clients of a world.
const (
	opsToken   = "token-of-an-operator-0123456789abcdef"
	guestToken = "token-of-a-guest-0123456789abcdef0123"
)

// world is two replicas of lockd on one Redis, with locks, and a browser that reaches them through one address.
type world struct {
	t        testing.TB
	replicas []*harness.Lockd
	url      string
	dir      string
	token    string            // a file with that of the operator
	issuer   *ecdsa.PrivateKey // of tokens that expire
	*chrome
}

// patient has a lockd wait for a Redis that stands still for a moment.
var patient = []string{"LOCKD_SESSION_MIN_TTL=5s", "LOCKD_REDIS_OP_TIMEOUT=5s"}

func start(t *testing.T) *world {
	t.Helper()
	c := startChrome(t)
	w := &world{t: t, dir: t.TempDir(), chrome: c}
	w.token = w.file("token", opsToken)
	w.file("key", strings.Repeat("k", 32))
	w.issue()
	w.clients("ops", "guest", "shift")
	redis := redistest.Start(t)
	var consoles []string
	for _, name := range []string{"lockd-a", "lockd-b"} {
		d := harness.StartLockd(t, lockdBin, redis.Addr, append(patient, "LOCKD_REPLICA="+name,
			"LOCKD_SECURITY_CLIENTS_FILE="+filepath.Join(w.dir, "clients.yaml"),
			"LOCKD_SECURITY_AUDIT="+filepath.Join(w.dir, name+".audit"),
			"LOCKD_CONSOLE_LISTEN=127.0.0.1:0", "LOCKD_CONSOLE_KEY_FILE="+filepath.Join(w.dir, "key"))...)
		at, _ := d.Logged("lockd serves")["console"].(string)
		consoles = append(consoles, strings.Trim(strings.TrimPrefix(at, "http:"), "/"))
		w.replicas = append(w.replicas, d)
	}
	w.url = "http://" + entry(t, consoles)
	return w
}

func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	harness.Must(w.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// clients writes a clients file of some of those who are known.
func (w *world) clients(names ...string) {
	w.t.Helper()
	known := map[string]string{
		"ops": fmt.Sprintf("- {name: ops, token_sha256: [%x], lock: ['*'], admin: [force, limit, drain, examine], "+
			"quota: {sessions: 100, locks: 5000}}\n", sha256.Sum256([]byte(opsToken))),
		"shift": fmt.Sprintf("- {name: shift, jwt: {issuer: 'https://issuer.example', audience: lockd, sub: '*', jwks: %s}, "+
			"lock: ['*'], admin: [force, examine]}\n", filepath.Join(w.dir, "jwks.json")),
		"guest": fmt.Sprintf("- {name: guest, token_sha256: [%x], look: ['report:*']}\n", sha256.Sum256([]byte(guestToken))),
	}
	text := "clients:\n"
	for _, name := range names {
		text += known[name]
	}
	w.file("clients.yaml", text)
}

// issue makes the key of an issuer of tokens, and tells it.
func (w *world) issue() {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(w.t, err)
	w.issuer = key
	told, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"},
	}})
	harness.Must(w.t, err)
	w.file("jwks.json", string(told))
}

// shift is a token that is good for so long from now.
func (w *world) shift(lasts time.Duration) string {
	w.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: w.issuer},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", "k"))
	harness.Must(w.t, err)
	token, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://issuer.example", Subject: "alice", Audience: jwt.Audience{"lockd"},
		IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(lasts)),
	}).Serialize()
	harness.Must(w.t, err)
	return token
}

// entry is an address that leads to the first of some addresses that answers, as a Service of Kubernetes would.
func entry(t *testing.T, to []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); _ = l.Close(); wg.Wait() })
	pass := func(to, from net.Conn) { _, _ = io.Copy(to, from); _ = to.Close() }
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			for _, addr := range to {
				out, err := net.Dial("tcp", addr)
				if err != nil {
					continue
				}
				context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
				wg.Go(func() { pass(out, in) })
				wg.Go(func() { pass(in, out) })
				break
			}
		}
	})
	return l.Addr().String()
}

// client is a program that uses a replica.
func (w *world) client(name string, of int) *client.Client {
	w.t.Helper()
	c, err := client.Dial(w.replicas[of].Addr, client.WithName(name), client.WithTokenFile(w.token))
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) lock(c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	w.t.Helper()
	l, err := c.Lock(w.t.Context(), name, opts...)
	harness.Must(w.t, err)
	return l
}

// waits has a program wait for a lock, for as long as the test goes on.
func (w *world) waits(c *client.Client, name string) {
	go func() { _, _ = c.Lock(w.t.Context(), name) }()
}

// login gives a token in the form.
func (w *world) login(token string) {
	w.t.Helper()
	w.open(w.url + "/")
	w.shows("Log in") // it was sent there
	w.fill("token", token)
	w.click("main form button")
	w.shows("Log out")
	w.isLive()
}

func (w *world) isLive() {
	w.t.Helper()
	w.await("the page is live", "document.getElementById('state').textContent === 'Live'")
}

// audited waits until a replica's audit has a line with some texts.
func (w *world) audited(texts ...string) {
	w.t.Helper()
	harness.Until(w.t, "a line of the audit with "+strings.Join(texts, ", "), func() bool {
		for _, name := range []string{"lockd-a", "lockd-b"} {
			all, _ := os.ReadFile(filepath.Join(w.dir, name+".audit")) // none yet
		lines:
			for line := range strings.Lines(string(all)) {
				for _, text := range texts {
					if !strings.Contains(line, text) {
						continue lines
					}
				}
				return true
			}
		}
		return false
	})
}
