package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/proctest"
)

const (
	// MasterName is what the sentinels of a Sentinels call their master.
	MasterName = "locks"
	// downAfter is how long a server may be silent before a sentinel takes it for down, after ReplaceSoon. Without that it
	// is patience.
	downAfter = time.Second
)

// Sentinels is a master with two replicas, and three sentinels that watch over them. They run for one test. Nobody
// takes the place of a master that is silent, unless a test asks for that.
type Sentinels struct {
	// Addrs are where the sentinels are.
	Addrs []string
	// Servers are the three servers. The first is the first master.
	Servers []*Server
	// Watchers are the sentinels.
	Watchers []*Watcher

	t testing.TB
}

// Watcher is one sentinel. While it does not answer it does not count.
type Watcher struct {
	*Server

	id string // by which others know it
}

// StartSentinels runs all six processes until the test ends, and waits until they know each other. args are further
// arguments for the servers. See ReplaceSoon.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	k := &Sentinels{t: t}
	master := Start(t, append([]string{"--repl-diskless-sync-delay", "0"}, args...)...)
	k.Servers = append(k.Servers, master)
	host, port := master.hostPort()
	for range 2 {
		k.Servers = append(k.Servers, Start(t, append([]string{
			"--replicaof", host, port, "--repl-diskless-sync-delay", "0",
		}, args...)...))
	}
	k.watch()
	k.Settle("")
	return k
}

// ReplaceSoon makes the sentinels replace a master that is silent for a second, from now on. Call it before a server is
// killed or paused.
func (k *Sentinels) ReplaceSoon() {
	k.t.Helper()
	for _, w := range k.Watchers {
		if _, err := w.ask("sentinel", "set", MasterName, "down-after-milliseconds", downAfter.Milliseconds()); err != nil {
			k.t.Fatal(err)
		}
	}
}

// CutOff ends the connections of the master's replicas, and refuses them new ones: no replica gets what the master is
// told from now on.
func (k *Sentinels) CutOff(master *Server) {
	k.t.Helper()
	_, err := master.ask("acl", "setuser", "default", "-psync", "-sync")
	killed := master.own.Do(context.Background(), "client", "kill", "type", "replica").Err()
	if err := errors.Join(err, killed); err != nil {
		k.t.Fatal(err)
	}
}

// watch starts the sentinels. They are told of each other and of the replicas, which they would else find out in
// seconds.
func (k *Sentinels) watch() {
	k.t.Helper()
	for i := range 3 {
		w := newWatcher(k.t, strings.Repeat(fmt.Sprint(i+1), 40))
		k.Addrs, k.Watchers = append(k.Addrs, w.Addr), append(k.Watchers, w)
	}
	for _, w := range k.Watchers {
		var known []string
		for _, s := range k.Servers[1:] {
			known = append(known, fmt.Sprintf("sentinel known-replica %s %s", MasterName, apart(s.Addr)))
		}
		for _, other := range k.Watchers {
			if other != w {
				known = append(known, fmt.Sprintf("sentinel known-sentinel %s %s %s", MasterName, apart(other.Addr), other.id))
			}
		}
		w.configure(k.Servers[0].Addr, 2, known...)
	}
}

// StartSentinel runs one sentinel until the test ends. It calls the server at the address master MasterName. lines are
// added to its configuration.
func StartSentinel(t testing.TB, master string, lines ...string) *Watcher {
	t.Helper()
	w := newWatcher(t, strings.Repeat("a", 40))
	w.configure(master, 1, lines...)
	return w
}

func newWatcher(t testing.TB, id string) *Watcher {
	t.Helper()
	return &Watcher{&Server{Addr: proctest.FreeAddr(t), t: t, dir: t.TempDir(), sentinel: true}, id}
}

// configure writes its configuration, and runs it until the test ends.
func (w *Watcher) configure(master string, quorum int, more ...string) {
	w.t.Helper()
	host, port := w.hostPort()
	file := filepath.Join(w.dir, "sentinel.conf")
	lines := append([]string{
		"bind " + host, "port " + port, "dir " + w.dir, "logfile " + w.logFile(),
		"sentinel myid " + w.id,
		fmt.Sprintf("sentinel monitor %s %s %d", MasterName, apart(master), quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", MasterName, patience.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s 6000", MasterName),
		fmt.Sprintf("sentinel parallel-syncs %s 2", MasterName),
	}, more...)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.args = []string{file, "--sentinel"}
	w.firstStart(func() {})
}

// apart is an address as Redis has it: the host, then the port.
func apart(addr string) string { return strings.Replace(addr, ":", " ", 1) }

// Settle waits until all sentinels that run agree on a master other than before, which answers as one, and until each
// replica that answers follows it. It returns the address of the master.
func (k *Sentinels) Settle(before string) (master string) {
	k.t.Helper()
	await(k.t, "the sentinels agree", func() (err error) {
		master, err = k.settled(before)
		return err
	})
	return master
}

func (k *Sentinels) settled(before string) (master string, err error) {
	for _, w := range k.Watchers {
		if !w.Answers() {
			continue
		}
		switch addr, err := w.Master(); {
		case err != nil:
			return "", fmt.Errorf("%s: %w", w.Addr, err)
		case addr == before, master != "" && addr != master:
			return "", fmt.Errorf("%s says that %s is the master", w.Addr, addr)
		default:
			master = addr
		}
	}
	for _, s := range k.Servers {
		if !s.Answers() {
			continue
		}
		switch role, err := s.role(); {
		case err != nil:
			return "", err
		case s.Addr == master && role != "master", s.Addr != master && role != "replica of "+master:
			return "", fmt.Errorf("%s is %s, and %s the master", s.Addr, role, master)
		}
	}
	return master, nil
}

// Master is the server that all sentinels take for the master.
func (k *Sentinels) Master() *Server {
	k.t.Helper()
	addr := k.Settle("")
	for _, s := range k.Servers {
		if s.Addr == addr {
			return s
		}
	}
	k.t.Fatalf("%s is none of the servers", addr)
	return nil
}

// FailOver has the sentinels make another server the master, and waits until all agree on it.
func (k *Sentinels) FailOver() (master string) {
	k.t.Helper()
	before := k.Master().Addr
	await(k.t, "a fail-over begins", func() error { // it may be too early after the last one
		_, err := k.Watchers[0].ask("sentinel", "failover", MasterName)
		return err
	})
	return k.Settle(before)
}

// Master is the address of the master, as this sentinel says. It fails while the sentinel lacks a replica or another
// sentinel.
func (w *Watcher) Master() (addr string, err error) {
	told := redis.NewMapStringStringCmd(context.Background(), "sentinel", "master", MasterName)
	if err := w.own.Process(context.Background(), told); err != nil {
		return "", err
	}
	m := told.Val()
	addr = m["ip"] + ":" + m["port"]
	if m["flags"] != "master" && m["flags"] != "master,disconnected" || m["num-slaves"] != "2" ||
		m["num-other-sentinels"] != "2" {
		return "", fmt.Errorf("%s is %s with %s replicas and %s other sentinels", addr, m["flags"], m["num-slaves"],
			m["num-other-sentinels"])
	}
	return addr, nil
}

// role is "master" or "replica of ADDR". It fails while a replica does not follow its master.
func (s *Server) role() (string, error) {
	info, err := s.ask("info", "replication")
	if err != nil {
		return "", err
	}
	role := infoField(info, "role")
	if strings.Count(info, ",state=") != strings.Count(info, ",state=online") {
		return "", errors.New(s.Addr + " has a replica that does not acknowledge yet")
	}
	if role == "slave" {
		if infoField(info, "master_link_status") != "up" {
			return "", errors.New(s.Addr + " does not follow its master")
		}
		role = "replica of " + infoField(info, "master_host") + ":" + infoField(info, "master_port")
	}
	return role, nil
}
