package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/redistest/rig"
	"github.com/lockd-io/lockd/internal/tier"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaits()
	goleak.VerifyTestMain(m,
		// go-redis looks for a server that is down from a goroutine that sleeps for up to a second after Close.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		// go-redis keeps one clock for all clients.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.init.0.func1"))
}

// open opens a Store on a server until the test ends.
func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg, zaptest.NewLogger(t), metrics(t))
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// begin has a test run beside others, on a server of its own.
func begin(t *testing.T) (*redistest.Server, *Store, *redis.Client) {
	t.Helper()
	t.Parallel()
	srv := redistest.Start(t)
	return srv, open(t, quick(srv)), srv.Client()
}

// metrics are registered, as they are in a daemon.
func metrics(t testing.TB) *Metrics {
	m, err := NewMetrics(prometheus.NewRegistry())
	must(t, err)
	return m
}

// quick are timeouts for tests, in which a server or the test itself may stand still for some seconds. A connection for
// channels is not cut because of that.
func quick(srv *redistest.Server) Config {
	return Config{Addr: srv.Addr, OpTimeout: 5 * time.Second, HearTimeout: time.Minute, Linger: time.Second}
}

// The contract is kept by one server, with a prefix and the rights of the documented user.
func TestContract(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.Prefix = "app:"
	cfg.Username, cfg.PasswordNow = documentedUser(t, srv.Client())
	runContract(t, cfg, srv.Client())
}

// Other set-ups keep it as well.
func TestContractInOtherWays(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	srv := redistest.Start(t)
	for name, set := range map[string]func(*Config){
		"no prefix":      func(*Config) {},
		"one slot":       func(cfg *Config) { cfg.Prefix = "{app}:" },
		"calls for many": func(cfg *Config) { cfg.fewTogether = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := quick(srv)
			set(&cfg)
			runContract(t, cfg, srv.Client())
		})
	}
}

// runContract runs the contract with one Store, whose data are lost before each test.
func runContract(t *testing.T, cfg Config, c *redis.Client) {
	cfg.Linger = time.Millisecond
	s := open(t, cfg)
	storetest.Run(t, func(t *testing.T) storetest.Rig {
		until(t, "nobody listens any more", func() error {
			left := slices.DeleteFunc(c.PubSubChannels(t.Context(), "*").Val(), func(channel string) bool {
				return channel == "__sentinel__:hello" // which sentinels listen to
			})
			if len(left) > 0 {
				return fmt.Errorf("%q are heard", left)
			}
			return nil
		})
		must(t, c.FlushAll(t.Context()).Err())
		_, err := s.Probe(t.Context()) // sees that they are
		must(t, err)
		return storetest.Rig{Store: s, Hooks: rig.Hooks(t.Context(), c, cfg.Prefix)}
	})
}

// The scripts do what memstore says, whatever the order.
func TestScriptsAgreeWithMemory(t *testing.T) {
	t.Parallel()
	seed, steps := rand.Uint64(), tier.Pick(3000, 100_000)
	if again, err := strconv.ParseUint(os.Getenv("TEST_SEED"), 10, 64); err == nil { // of a failure
		seed = again
	}
	s, gate, c := gated(t)
	memory, scripts := comparedRigs(t, s, gate, c)
	if err := storetest.Compare(t.Context(), memory, scripts, seed, steps); err != nil {
		t.Error(err)
	}
	if slices.Index(gate.seen(), s.Scripts.Many.SHA) < 0 {
		t.Error("no call was for many locks")
	}
}

// comparedRigs are a store in memory and one behind a gate.
func comparedRigs(t *testing.T, s *Store, gate *gate, c *redis.Client) (memory, scripts storetest.Rig) {
	mem := memstore.New()
	memory = storetest.Rig{Store: mem, Hooks: storetest.HooksOf(mem)}
	scripts = storetest.Rig{Store: s, Hooks: rig.Hooks(t.Context(), c, "")}
	scripts.Hooks.Lose = func() error { // and have it noticed at once, as in memory
		err := c.FlushAll(t.Context()).Err()
		_, probed := s.Probe(t.Context())
		return errors.Join(err, probed)
	}
	scripts.Hooks.Together = func(fate storetest.Fate, start func()) error { return gate.together(s, fate, start) }
	scripts.Hooks.RunLate = func() error { return gate.runLate(t.Context(), c) }
	return memory, scripts
}

// lockKeys are all keys but that of the data.
func lockKeys(t testing.TB, c *redis.Client) []string {
	t.Helper()
	all, err := c.Keys(t.Context(), "*").Result()
	must(t, err)
	return slices.DeleteFunc(all, func(key string) bool { return key == layout.Data })
}
