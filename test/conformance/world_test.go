package conformance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// sharedReplicas are for all scenarios in which nothing happens to a replica.
const sharedReplicas = 2

// patient has nothing be over because the machine is slow. A scenario in which a lease ends asks for a short one.
var patient = []string{"LOCKD_SESSION_TTL=10m", "LOCKD_SESSION_MIN_TTL=4s", "LOCKD_REDIS_OP_TIMEOUT=4s"}

// world is what all plays share.
type world struct {
	t        testing.TB
	redis    *redistest.Server
	replicas []*harness.Lockd
	observer *client.Client // of the player

	mu      sync.Mutex // guards the fields below
	drivers map[string]*driver
	plays   int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, redis: redistest.Start(t), drivers: make(map[string]*driver)}
	w.replicas = start(t, w.redis, "all", sharedReplicas)
	w.observer = w.replicas[0].Dial(t)
	return w
}

// start runs replicas over a Redis.
func start(t testing.TB, redis *redistest.Server, name string, n int, env ...string) (all []*harness.Lockd) {
	t.Helper()
	for i := range n {
		env := append(append(slices.Clone(patient), fmt.Sprintf("LOCKD_REPLICA=%s-%d", name, i)), env...)
		for _, what := range []string{"", "OPS_", "ADMIN_"} { // ports that are free when it is started again
			env = append(env, "LOCKD_"+what+"LISTEN="+proctest.FreeAddr(t))
		}
		all = append(all, harness.StartLockd(t, lockdBin, redis.Addr, env...))
	}
	return all
}

// driver is the one of a language that all plays share, without those clients that are alone.
func (w *world) driver(l language) *driver {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drivers[l.name] == nil {
		w.drivers[l.name] = startDriver(w.t, l)
	}
	return w.drivers[l.name]
}

// newPlay is a number for a play.
func (w *world) newPlay() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plays++
	return fmt.Sprint(w.plays)
}

// build makes what a play has of its own: replicas, and networks between each client and each replica.
func (p *play) build() {
	p.redis, p.replicas = p.world.redis, p.world.replicas
	if p.sc.redis {
		p.redis = redistest.Start(p.t)
	}
	if n := p.sc.replicas; n > 0 {
		p.replicas = start(p.t, p.redis, p.number, n, p.guard()...)
	}
	for _, c := range p.sc.clients {
		for _, r := range p.replicas {
			p.links[c] = append(p.links[c], redistest.StartProxy(p.t, r.Addr))
		}
	}
}

// guard writes a clients file and a file for each token, if there are tokens, and returns the variables of lockd.
func (p *play) guard() []string {
	if p.sc.tokens == nil {
		return nil
	}
	return []string{"LOCKD_SECURITY_CLIENTS_FILE=" + p.writeClients("")}
}

// writeClients writes the clients file, without one of its tokens, and returns its path.
func (p *play) writeClients(without string) string {
	var clients []map[string]any
	for _, token := range slices.Sorted(maps.Keys(p.sc.tokens)) {
		if token == without {
			continue
		}
		sum := sha256.Sum256([]byte(p.token(token)))
		var patterns []string
		for _, name := range p.sc.tokens[token] {
			patterns = append(patterns, p.prefixed(name))
		}
		clients = append(clients, map[string]any{
			"name": token, "token_sha256": []string{hex.EncodeToString(sum[:])}, "lock": patterns,
		})
	}
	text, err := yaml.Marshal(map[string]any{"clients": clients})
	harness.Must(p.t, err)
	return p.write("clients.yaml", string(text))
}

// token is the secret of a token.
func (p *play) token(name string) string { return strings.Repeat(name+"-"+p.number+"-", 8) }

// write makes a file, and returns its path.
func (p *play) write(name, text string) string {
	path := filepath.Join(p.dir, name)
	harness.Must(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// proxy changes the network between a client and one or all replicas.
func (p *play) proxy(s step) error {
	links := p.links[s.text("client")]
	if at, ok := s.value("at").(int64); ok {
		links = links[at : at+1]
	}
	for _, l := range links {
		switch s.verb {
		case "break":
			l.CutAll()
		case "silence":
			p.silenced[l] = true
			l.Set(redistest.Stall)
			l.Hold(func([]byte) bool { return true })
		case "mend":
			l.Set(redistest.Pass)
			l.Deliver()
		}
	}
	return nil
}

// replica does something to one.
func (p *play) replica(s step) error {
	at, _ := s.value("at").(int64)
	switch r := p.replicas[at]; s.verb {
	case "kill":
		r.Kill()
	case "stop":
		r.Signal(syscall.SIGTERM)
	case "start":
		r.Restart()
	case "freeze":
		r.Signal(syscall.SIGSTOP)
	case "thaw":
		r.Signal(syscall.SIGCONT)
	}
	return nil
}

// process does something to the process of a client.
func (p *play) process(s step) error {
	name := s.text("client")
	switch proc := p.drivers[name].proc; s.verb {
	case "kill":
		delete(p.drivers, name)
		proc.Kill()
	case "end":
		return p.ends(name, proc)
	case "freeze":
		proc.Signal(syscall.SIGSTOP)
	case "thaw":
		proc.Signal(syscall.SIGCONT)
	}
	return nil
}

// store does something to the Redis.
func (p *play) store(s step) error {
	if s.verb == "freeze" {
		p.redis.Pause()
	} else {
		p.redis.Resume()
	}
	return nil
}

// operator does what a person may do at a replica, or to its files.
func (p *play) operator(s step) error {
	if s.verb == "throw_out" { // the file is read again soon
		p.writeClients(s.text("token"))
		return nil
	}
	admin := lockdv1.NewAdminServiceClient(p.replicas[0].Operate(p.t))
	_, err := admin.ForceRelease(p.t.Context(), &lockdv1.ForceReleaseRequest{
		Name: p.prefixed(s.text("name")), By: s.text("by"), Why: s.text("why"),
	})
	return err
}
