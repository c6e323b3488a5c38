package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// behind is quick behind sentinels.
func behind(k *redistest.Sentinels) Config {
	return Config{
		Sentinel:  &Sentinel{Master: redistest.MasterName, Addrs: k.Addrs},
		OpTimeout: 10 * time.Second, HearTimeout: time.Minute, Linger: time.Second,
	}
}

func TestContractBehindSentinel(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	k := redistest.StartSentinels(t)
	cfg := behind(k)
	cfg.Replicas = 1
	runContract(t, cfg, k.Master().Client())
}

// The old master lives, and says that it is a replica. Nobody asks for anything meanwhile but the probes.
func TestAnIdleStoreFollowsAForcedFailOver(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	core, logs := observer.New(zapcore.InfoLevel)
	s, err := Open(t.Context(), behind(k), zap.New(core), metrics(t))
	must(t, err)
	defer s.Close()
	heard := make(chan lock.What, 100)
	defer s.Listen("n", lock.Exclusive, func(n lock.Notice) { heard <- n.What })()
	await(t, heard, lock.NoticeListening)
	before, err := s.Probe(t.Context())
	must(t, err)
	f := acquire(t, s, claim("n", "o")).Fence
	k.Master().Replicated(2)
	k.FailOver()
	until(t, "probe", func() error {
		after, err := s.Probe(t.Context())
		if err == nil && after == before {
			err = errors.New("it is the old one")
		}
		return err
	})
	await(t, heard, lock.NoticeDeaf)
	await(t, heard, lock.NoticeListening)
	if page, _, err := s.List(t.Context(), "", "", 10); err != nil || len(page) != 1 {
		t.Errorf("list: got %v, %v, want one", page, err)
	}
	release(t, s, releaseOf("n", "o", f))
	await(t, heard, lock.NoticeReleased)
	told := make(map[any]bool)
	for _, e := range logs.FilterMessage("another server is the master").All() {
		addr := e.ContextMap()[observe.KeyAddr]
		if told[addr] {
			t.Errorf("told once more that %s is the master", addr)
		}
		told[addr] = true
	}
	if len(told) == 0 {
		t.Error("not told that another server is the master")
	}

	// A sentinel that was cut off meanwhile says what was true before, and the server there takes itself for a master.
	stale := redistest.StartSentinel(t, redistest.Start(t).Addr)
	for i, name := range []string{"a", "b", "c", "d"} {
		cfg := behind(k)
		cfg.Sentinel.Addrs = []string{stale.Addr, k.Addrs[1+i%2], k.Addrs[0]}
		acquire(t, open(t, cfg), claim(name, "o"))
		if n := k.Master().Client().Exists(t.Context(), name).Val(); n != 1 {
			t.Errorf("%s was not taken on the master", name)
		}
	}
}

// A master that turned into a replica is left at once, whatever the sentinels say, and not used while it is one.
func TestADemotedMasterIsLeft(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	for _, w := range k.Watchers[1:] {
		w.Kill() // so that nobody mends what the test does
	}
	s := open(t, behind(k))
	master := k.Servers[0].Client()
	acquire(t, s, claim("n", "o"))
	must(t, master.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	refused := func(err error) error {
		if err == nil || !strings.Contains(err.Error(), "is a replica") {
			return fmt.Errorf("got %v, want that no connection is made to a replica", err) //nolint:errorlint // its text counts
		}
		return nil
	}
	until(t, "a probe finds out", func() error { _, err := s.Probe(t.Context()); return refused(err) })
	until(t, "nothing is asked", func() error {
		_, err := lock.Await(t.Context(), s.StartAcquire, claim("m", "o"))
		return refused(err)
	})
	must(t, master.ReplicaOf(t.Context(), "NO", "ONE").Err())
	until(t, "acquire", func() error { return attempt(t, s, claim("m", "o")) })
}

// It would delay for as long as a connection may take to be made.
func TestASentinelThatIsGoneDelaysNobody(t *testing.T) {
	t.Parallel()
	const patience = time.Minute
	k := redistest.StartSentinels(t)
	for what, leave := range map[string]func(){"silent": k.Watchers[0].Pause, "down": k.Watchers[1].Kill} {
		leave()
		begun := time.Now()
		cfg := behind(k)
		cfg.OpTimeout, cfg.ConnectTimeout = patience, patience
		if _, err := open(t, cfg).Probe(t.Context()); err != nil || time.Since(begun) > patience/2 {
			t.Errorf("one is %s: got %v after %v", what, err, time.Since(begun))
		}
	}
}

// A grant that one replica acknowledged is told. If the other one becomes the master, it is lost with the data; fences
// grow all the same.
func TestAReplicaThatDidNotAcknowledgeTakesOver(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	master := k.Master()
	cfg := behind(k)
	cfg.Replicas = 1
	s := open(t, cfg)
	taken := func(name string) (f lock.Fence) {
		until(t, "acquire "+name, func() error { // it is refused while the replica is slow, as on a busy machine
			g, err := lock.Await(t.Context(), s.StartAcquire, claim(name, "o"))
			f = g.Fence
			return err
		})
		return f
	}
	master.Replicated(2)
	kept := taken("kept")
	master.Replicated(2)
	stale, has := k.Servers[1].Client(), k.Servers[2].Client()
	for _, set := range []struct {
		of   *redis.Client
		args []any
	}{
		{has, []any{"config", "set", "replica-priority", "0"}},  // it is never made the master
		{stale, []any{"config", "set", "masteruser", "nobody"}}, // one at a time, for Redis 6.2
		{stale, []any{"config", "set", "masterauth", "nothing"}},
		{stale, []any{"client", "kill", "type", "master"}},
	} {
		must(t, set.of.Do(t.Context(), set.args...).Err())
	}
	until(t, "a replica is cut off", func() error {
		if !strings.Contains(stale.Info(t.Context(), "replication").Val(), "master_link_status:down") {
			return errors.New("it is not")
		}
		return nil
	})
	lost := taken("lost")
	seen := time.Now()

	k.ReplaceSoon()
	master.Kill()
	if to := k.Settle(master.Addr); to != k.Servers[1].Addr {
		t.Fatalf("%s is the master, want the one that is behind", to)
	}
	until(t, "renew what both had", func() error { return seenOne(t, s, "kept", "o", kept, seen) })
	wantLost(t, seenOne(t, s, "lost", "o", lost, seen), lock.LostData)
	until(t, "acquire", func() error { return attempt(t, s, claim("lost", "p")) })
	if g := acquire(t, s, claim("lost", "p")); g.Fence <= lost {
		t.Errorf("got fence %d, want more than %d, of which the new master never heard", g.Fence, lost)
	}
}
