package attacks

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	// mostMemory is the limit of the chart, and memoryLimit what it tells Go.
	mostMemory, memoryLimit = 512 << 20, "GOMEMLIMIT=410MiB"
	leases                  = 50
	// settling is how long an attack goes on before the honest client beside it is measured: an attacker may have some
	// work done before it pays.
	settling = 1500 * time.Millisecond
	// rounds: it is measured again if something else may have slowed it down.
	rounds = 6
	// leastKept is what the honest client keeps of its speed at least.
	leastKept = 0.5
	// what may be left after an attack, besides what was there before.
	mostGoroutines, mostHeap = 64, 32 << 20
	// fewEvents: 100,000 take 21 MB, which the honest client alone fills, the sooner the faster the machine is.
	fewEvents = "LOCKD_HISTORY_EVENTS=10000"
)

// victim is a lockd with an honest client.
type victim struct {
	*harness.Lockd
	honest *client.Client
	locks  []*client.Lock
	// enough says whether an attack had its effect; nil = at once.
	enough func() bool
	// attackers are processes that attack.
	attackers []*proctest.Process
	issuer    string       // of tokens, if there is a clients file
	asked     atomic.Int64 // how often the issuer was asked for its keys
	audit     string
	authority string // the file of lockd's, if it speaks TLS

	began            time.Time
	alone            pace
	goroutines, heap float64
}

// guarded is a victim with a clients file.
func guarded(t *testing.T, env ...string) *victim { t.Helper(); return victimOf(t, nil, true, env...) }

// Tokens of the clients in the file.
const (
	honestToken   = "9e107d9d372bb6826bd81d3542a419d6"
	attackerToken = "e4d909c290d0fb1ca068ffaddf22cbd0"
)

// ttl is that of the honest client's session.
const ttl = 6 * time.Second

const clientsFile = `
clients:
- name: honest
  token_sha256: ["%[1]x"]
  lock: ["*"]
- name: attacker
  token_sha256: ["%[2]x"]
  jwt: {issuer: "%[3]s", audience: lockd, sub: attacker, jwks: "%[3]s/keys"}
  lock: ["*"]
  deny: ["held *", "pair *", "forbidden *"]
  quota: {sessions: 600, locks: 5000, waiting: 1000, watches: %[4]d, streams: 2000}
`

// victimOf is a victim over TLS, unless there is no authority, and with a clients file or without.
func victimOf(t *testing.T, ca *certstest.Authority, guarded bool, more ...string) *victim {
	t.Helper()
	v := &victim{}
	env := []string{"LOCKD_STORE_KIND=memory", memoryLimit, fewEvents, "LOCKD_OPS_PPROF=true", "LOCKD_SESSION_TTL=5s"}
	opts := []client.Option{client.WithSessionTTL(ttl)}
	if ca != nil {
		cert, key := ca.Issue(t, time.Hour, "127.0.0.1").Files(t)
		env = append(env, "LOCKD_LISTEN_TLS_CERT_FILE="+cert, "LOCKD_LISTEN_TLS_KEY_FILE="+key)
		v.authority = ca.File(t)
		opts = append(opts, client.WithTLS(client.TLS{CACert: v.authority}))
	}
	if guarded {
		dir := t.TempDir()
		v.issuer, v.audit = v.issue(t), filepath.Join(dir, "audit.json")
		token := certstest.Write(t, filepath.Join(dir, "token"), []byte(honestToken))
		file := certstest.Write(t, filepath.Join(dir, "clients.yaml"), fmt.Appendf(nil, clientsFile,
			sha256.Sum256([]byte(honestToken)), sha256.Sum256([]byte(attackerToken)), v.issuer, watchQuota))
		env = append(env, "LOCKD_SECURITY_CLIENTS_FILE="+file, "LOCKD_SECURITY_AUDIT="+v.audit)
		opts = append(opts, client.WithTokenFile(token))
	}
	v.Lockd = harness.StartLockdOn(t, lockdBin, append(env, more...)...)
	v.honest, v.began = v.Dial(t, opts...), time.Now()
	for i := range leases {
		l, err := v.honest.Lock(t.Context(), fmt.Sprint("held ", i))
		harness.Must(t, err)
		v.locks = append(v.locks, l)
	}
	if *measured {
		v.works(during(t, *long/2), t) // it warms up
		v.alone = v.works(during(t, *long), t)
	}
	v.heap = v.Heap()
	v.goroutines = v.Metric("go_goroutines")
	return v
}

// issue tells keys, and returns where.
func (v *victim) issue(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	harness.Must(t, err)
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "first"}}})
	harness.Must(t, err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		v.asked.Add(1)
		_, _ = w.Write(keys)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// have has a process attack until the end, and waits until it begins.
func (v *victim) have(t *testing.T, attack, to string, env ...string) {
	t.Helper()
	p := proctest.Start(t, os.Args[0], append(env, envAttack+"="+attack, envFrom+"=127.0.0.2", envTo+"="+to,
		envIssuer+"="+v.issuer, envAuthority+"="+v.authority))
	v.attackers = append(v.attackers, p)
	harness.Until(t, "the attack begins", func() bool { return p.Stdout.String() != "" })
}

// heard is all that attackers were told, each once.
func (v *victim) heard() (all string) {
	for _, p := range v.attackers {
		all += p.Stdout.String()
	}
	return all
}

// pace is how fast the honest client is, and what of its processor time lockd used meanwhile.
type pace struct {
	pairs     float64
	cpu, took time.Duration
}

// during is a context for so long.
func during(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), d)
	t.Cleanup(stop)
	return ctx
}

// works has the honest client take and release locks for a while.
func (v *victim) works(ctx context.Context, t *testing.T) (p pace) {
	t.Helper()
	began, cpu := time.Now(), v.cpu(t)
	var pairs atomic.Int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				l, err := v.honest.Lock(t.Context(), fmt.Sprint("pair ", i))
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					t.Errorf("the honest client: %v", err)
					return
				}
				pairs.Add(1)
			}
		})
	}
	all.Wait()
	return pace{float64(pairs.Load()), v.cpu(t) - cpu, time.Since(began)}
}

// kept is what the honest client kept of its speed: by the clock, or of lockd's processor time. The latter does not
// depend on what else the machine does.
func (v *victim) kept(now pace) (speed, share float64) {
	speed = now.pairs / now.took.Seconds() / (v.alone.pairs / v.alone.took.Seconds())
	return speed, now.pairs * v.alone.cpu.Seconds() / v.alone.pairs / max(now.cpu.Seconds(), 0.01)
}

// suffer is while attackers are at work. Meanwhile probes are asked, leases are renewed, and the honest client
// works.
func (v *victim) suffer(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	began, first, lasts := time.Now(), *long, *long
	if *measured {
		first, lasts = settling, settling+*long
	}
	now := make(chan pace, 1)
	go func() {
		here := v.works(during(t, first), t)
		for n := 0; *measured && n < rounds; n++ {
			if here = v.works(during(t, *long), t); max(v.kept(here)) >= leastKept {
				break
			}
		}
		now <- here
	}()
	valid := v.locks[0].Deadline()
	goesOn := func() bool {
		renewed := v.locks[0].Deadline().After(valid) // while it was attacked
		return time.Since(began) < lasts || ctx.Err() == nil && (!renewed || v.enough != nil && !v.enough())
	}
	least := ttl
	for ; goesOn(); time.Sleep(50 * time.Millisecond) {
		v.probe(t)
		least = min(least, v.locks[0].ValidFor())
	}
	here := harness.Soon(t, "the honest client stops", now)
	stop()
	if !*measured {
		v.unharmed(t, valid)
		return
	}
	speed, share := v.kept(here)
	t.Logf("the honest client kept %.2f of its speed, and had %.2f of lockd's time; its lock was sure for %v at least",
		speed, share, least)
	// A lease is renewed, and its client told, after a third of the TTL each: so it is sure for another third always.
	if least < ttl/3-ttl/10 {
		t.Errorf("a renewal was late by more than a tenth of the TTL")
	}
	if max(speed, share) < leastKept {
		t.Errorf("that is too little: alone it had %v, and now %v", v.alone, here)
	}
	v.unharmed(t, valid)
}

// whole says whether each attack is made in each way.
func whole() bool { return *measured || *long >= 10*time.Second }

// sideBySide has attacks that are not measured last at the same time.
func sideBySide(t *testing.T) {
	t.Helper()
	if !*measured {
		t.Parallel()
	}
}

func (v *victim) probe(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, text := v.Get(path); code != http.StatusOK && !t.Failed() {
			t.Errorf("%s: got %d %s", path, code, text)
		}
	}
}

// unharmed checks what is there after an attack.
func (v *victim) unharmed(t *testing.T, valid time.Time) {
	t.Helper()
	if !v.locks[0].Deadline().After(valid) {
		t.Error("the leases of somebody else were not renewed during the attack")
	}
	for _, l := range v.locks {
		select {
		case <-l.Lost():
			t.Errorf("a lease of somebody else was lost: %v", l.Err())
		default:
		}
	}
	if memory := v.memory(t); memory > mostMemory {
		t.Errorf("lockd has %d MiB", memory>>20)
	}
	for _, p := range v.attackers {
		p.Kill()
	}
	harness.Until(t, "the goroutines are gone", func() bool {
		return v.Metric("go_goroutines") <= v.goroutines+mostGoroutines
	})
	harness.Until(t, "the memory is given back", func() bool { return v.Heap() <= v.heap+mostHeap })
	if v.audit != "" {
		const burst, rate = 50 + 1, 20 // of each of two tenants, and of lockd itself
		most := 2 * (burst + rate*time.Since(v.began).Seconds())
		if n := v.Metric("lockd_audit_lines_total"); n > most {
			t.Errorf("%v lines were written to the audit, want at most %v", n, most)
		}
		if n := v.asked.Load(); n > 3+int64(time.Since(v.began)/(10*time.Second)) {
			t.Errorf("the issuer was asked %d times", n)
		}
	}
}

// memory is the most that lockd had.
func (v *victim) memory(t *testing.T) int {
	t.Helper()
	for line := range strings.Lines(v.proc(t, "status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// cpu is the processor time that lockd used.
func (v *victim) cpu(t *testing.T) time.Duration {
	t.Helper()
	_, stat, _ := strings.Cut(v.proc(t, "stat"), ") ")
	fields := strings.Fields(stat)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / 100
}

func (v *victim) proc(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprint("/proc/", v.PID(), "/", file))
	harness.Must(t, err)
	return string(b)
}
