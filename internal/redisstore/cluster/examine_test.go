package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/examine"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// of are the findings of a check, by node.
func of(all []lock.Finding, check string) map[string]lock.Finding {
	found := make(map[string]lock.Finding)
	for _, f := range all {
		if f.Check == check {
			found[f.Node] = f
		}
	}
	return found
}

func TestAllMastersAreExamined(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, "--appendonly", "yes", "--min-replicas-to-write", "1")
	s := open(t, c)
	masters := redistest.Addrs(c.Nodes[:3])
	all := s.Examine(t.Context())
	for _, check := range []string{
		examine.Reachable, examine.ClusterState, examine.Rights, examine.Replication,
	} {
		found := of(all, check)
		for _, addr := range masters {
			untold := check == examine.Rights && strings.Contains(found[addr].Detail, "do not tell") // by Redis 6.2
			if f := found[addr]; f.Severity != lock.SeverityOK && !untold {
				t.Errorf("%s of %s: got %+v", check, addr, f)
			}
		}
		if len(found) != len(masters) {
			t.Errorf("%s: got %v", check, found)
		}
	}

	s = openWith(t, Config{Addrs: c.Addrs()[:2], Node: redisstore.Config{OpTimeout: 500 * time.Millisecond}})
	c.Nodes[2].Pause()
	defer c.Nodes[2].Resume()
	harness.Until(t, "one is silent, and another one is not", func() bool {
		begun := time.Now()
		silent := of(s.Examine(t.Context()), examine.Reachable)
		if took := time.Since(begun); took > 12*time.Second {
			t.Errorf("got %v after %v", silent, took)
		}
		return silent[masters[2]].Severity == lock.SeverityError && silent[masters[0]].Severity == lock.SeverityOK
	})
}

// There is one declaration for the cluster, which moves with its slot.
func TestWhatIsDeclaredIsKeptByTheWholeCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	a, b := open(t, c), open(t, c)
	declare := func(s *Store, text, want string) {
		t.Helper()
		if kept, err := s.Declare(t.Context(), text, time.Hour); err != nil || kept != want {
			t.Errorf("declared %q, got %q, %v, want %q", text, kept, err, want)
		}
	}
	declare(a, "one way", "one way")
	declare(b, "another", "one way")
	c.Migrate(layout.Slot(layout.Declaration(""))).Finish()
	declare(b, "another", "one way")
	declare(a, "one way", "one way")
}

// The user of docs/redis-keys.md may do all that lockd does in a cluster.
func TestTheDocumentedUserMayUseACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	cfg := Config{Addrs: c.Addrs()[:2], Node: redisstore.Config{OpTimeout: 5 * time.Second, Prefix: "app:"}}
	for _, n := range c.Nodes {
		name, password := redistest.DocumentedUser(t, n.Client())
		cfg.Node.Username, cfg.Node.PasswordNow = name, func() string { return password }
	}
	s := openWith(t, cfg)
	r := holding(t, s, "job")
	move := c.Migrate(layout.Slot("app:job"))
	move.Move(10)
	released := make(chan struct{})
	go func() { release(t, s, r); close(released) }() // by ASKING, until all of its keys are there
	time.Sleep(200 * time.Millisecond)
	move.Finish()
	<-released
	listen(t, s, "job")
	for _, f := range s.Examine(t.Context()) {
		if f.Severity >= lock.SeverityError || strings.Contains(f.Detail, "could not be looked at: NOPERM") {
			t.Errorf("got %+v", f)
		}
	}
}
