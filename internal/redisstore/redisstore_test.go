package redisstore

import (
	"errors"
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

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/rig"
	"github.com/lockd-io/lockd/internal/redistest"
)

func TestMain(m *testing.M) {
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// metrics are registered, as they are in a daemon.
func metrics(t testing.TB) *Metrics {
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// quick are timeouts for tests, long enough for two busy cores.
func quick(srv *redistest.Server) Config {
	return Config{Addr: srv.Addr, OpTimeout: 5 * time.Second, HearTimeout: time.Second}
}

func TestContract(t *testing.T) {
	for name, prefix := range map[string]string{"Plain": "", "Prefix": "app:", "OneSlot": "{app}:", "Together": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			c := srv.Client()
			storetest.Run(t, func(t *testing.T) storetest.Rig {
				if err := c.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				cfg := quick(srv)
				cfg.Prefix = prefix
				if name == "Prefix" {
					cfg.Username, cfg.Password = documentedUser(t, c)
				}
				if name == "Together" {
					cfg.fewTogether = 1 // all goes as calls for many
				}
				return storetest.Rig{Store: open(t, cfg), Hooks: rig.Hooks(t.Context(), c, prefix)}
			})
		})
	}
}

// The scripts do what memstore says, whatever the order. LOCKD_SEED repeats a failure, LOCKD_STEPS does more or less.
func TestScriptsAgreeWithMemory(t *testing.T) {
	seed, steps := uint64(envInt(t, "LOCKD_SEED", int(rand.Uint32()))), envInt(t, "LOCKD_STEPS", 100_000)
	t.Logf("seed %d", seed)
	for l, steps := range map[line]int{oneLine: steps, shares: steps / 2} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s, gate := gatedIn(t, srv, l)
			memory, scripts := comparedRigs(t, srv, s, gate)
			scripts.Hooks.BySession = l == shares
			if err := storetest.Compare(t.Context(), memory, scripts, seed, steps); err != nil {
				t.Error(err)
			}
			if slices.Index(gate.seen(), s.Scripts.Many.SHA) < 0 {
				t.Error("no call was for many locks")
			}
		})
	}
}

// comparedRigs are a store in memory and one behind a gate.
func comparedRigs(t *testing.T, srv *redistest.Server, s *Store, gate *gate) (memory, scripts storetest.Rig) {
	c := srv.Client()
	mem := memstore.New()
	memory = storetest.Rig{Store: mem, Hooks: storetest.Hooks{
		Expire:      func(name string) error { mem.Expire(name); return nil },
		ExpireHold:  func(name string, o lock.Owner) error { mem.ExpireHold(name, o); return nil },
		ExpirePlace: func(name string, o lock.Owner) error { mem.ExpirePlace(name, o); return nil },
		Lose:        func() error { mem.Lose(); return nil },
		Occupy:      func(name string) error { mem.Occupy(name); return nil },
	}}
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

// envInt is a number from the environment, or a default.
func envInt(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// lockKeys are all keys but that of the data.
func lockKeys(t testing.TB, c *redis.Client) []string {
	t.Helper()
	all, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(key string) bool { return key == layout.Data })
}
