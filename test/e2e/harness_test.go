package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// shortly is the session TTL where leases are to end.
const shortly = 5 * time.Second

// soonOver has a lockd with sessions that are soon over. Elsewhere nothing is over because the machine is slow.
const soonOver = "LOCKD_SESSION_TTL=5s"

// What else a lockd is told, with sessions that are not soon over and with such that are: a server that stands still
// for a moment is waited for.
var (
	patient = []string{"LOCKD_SESSION_TTL=10m", "LOCKD_SESSION_MIN_TTL=20s", "LOCKD_REDIS_OP_TIMEOUT=20s"}
	brisk   = []string{"LOCKD_SESSION_MIN_TTL=3s", "LOCKD_REDIS_OP_TIMEOUT=3s", "LOCKD_REDLOCK_NODE_TIMEOUT=3s"}
)

// The programs under test.
var lockdBin, lockctlBin string

func TestMain(m *testing.M) {
	flag.Parse()
	if addr := os.Getenv(heldEnv); addr != "" {
		os.Exit(holdForParent(addr))
	}
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "12", Before: build}))
}

// build builds the programs with the race detector.
func build() error {
	var errs [2]error
	lockdBin, errs[0] = harness.Build("lockd", "-race")
	lockctlBin, errs[1] = harness.Build("lockctl", "-race")
	return errors.Join(errs[:]...)
}

// startLockd runs a server before a Redis, or before a majority of several, with further variables such as soonOver.
func startLockd(t *testing.T, masters []string, env ...string) *harness.Lockd {
	t.Helper()
	also := patient
	if slices.Contains(env, soonOver) {
		also = brisk
	}
	env = append(slices.Clone(also), env...)
	if len(masters) == 1 {
		return harness.StartLockd(t, lockdBin, masters[0], env...)
	}
	return harness.StartLockdOn(t, lockdBin,
		append(env, "LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS="+strings.Join(masters, ","))...)
}

// startReplicas runs some servers over one store: a, b and so on.
func startReplicas(t *testing.T, masters []*redistest.Server, n int, env ...string) (ds []*harness.Lockd) {
	t.Helper()
	for i := range n {
		ds = append(ds, startLockd(t, redistest.Addrs(masters), append(env, fmt.Sprintf("LOCKD_REPLICA=%c", 'a'+i))...))
	}
	return ds
}

// oneReplica runs a server on a Redis of its own.
func oneReplica(t *testing.T, env ...string) (*redistest.Server, *harness.Lockd) {
	t.Helper()
	rs := redistest.Start(t)
	return rs, startLockd(t, []string{rs.Addr}, env...)
}

// twoReplicas runs two servers on one Redis.
func twoReplicas(t *testing.T, env ...string) (rs *redistest.Server, a, b *harness.Lockd) {
	t.Helper()
	rs = redistest.Start(t)
	ds := startReplicas(t, []*redistest.Server{rs}, 2, env...)
	return rs, ds[0], ds[1]
}

// onEachStore runs a test over one Redis and, in the second tier, over a majority of three, side by side.
func onEachStore(t *testing.T, test func(t *testing.T, masters []*redistest.Server)) {
	t.Parallel()
	for what, n := range map[string]int{"one Redis": 1, "a majority of three": 3} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if n > 1 {
				tier.Long(t)
			}
			test(t, redistest.StartMasters(t, n))
		})
	}
}

func mustLock(t *testing.T, c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, opts...)
	harness.Must(t, err)
	return l
}

func mustUnlock(t *testing.T, l *client.Lock) {
	t.Helper()
	harness.Must(t, l.Unlock(t.Context()))
}

// queue begins to wait for a name, again if the store is away at that moment. It returns when the client was told so,
// with where the lock comes. If the wait ends without it, nothing comes.
func queue(t *testing.T, c *client.Client, name string, opts ...client.LockOption) <-chan *client.Lock {
	t.Helper()
	queued, granted := make(chan int, 100), make(chan *client.Lock, 1)
	var waits atomic.Bool
	opts = append(slices.Clone(opts), client.OnQueued(func(n int) { waits.Store(true); queued <- n }))
	go func() {
		l, err := c.Lock(t.Context(), name, opts...)
		for err != nil && excused(err) && !waits.Load() {
			l, err = c.Lock(t.Context(), name, opts...)
		}
		if err == nil {
			granted <- l
		}
	}()
	harness.Soon(t, "told that it waits for "+name, queued)
	return granted
}

// lockctl runs the tool with a server, to its end.
func lockctl(d *harness.Lockd, args ...string) *proctest.Process {
	p := d.Tool(lockctlBin, args...)
	p.Code()
	return p
}

// whole is lockctl where all replicas are asked: again, until none was too busy to answer.
func whole(t *testing.T, d *harness.Lockd, args ...string) (p *proctest.Process) {
	t.Helper()
	harness.Until(t, "all replicas answer", func() bool {
		p = lockctl(d, args...)
		return !silent.MatchString(p.Stdout.String() + p.Stderr.String())
	})
	return p
}

// silent is what lockctl says of replicas that did not answer, to people and in JSON.
var silent = regexp.MustCompile(`did not answer|"replicas_silent": *[1-9]`)

// keys are all that Redis has but the last fences of names, and what lockd notes of itself.
func keys(t *testing.T, c *redis.Client) []string {
	t.Helper()
	all, err := c.Keys(t.Context(), "*").Result()
	harness.Must(t, err)
	return slices.DeleteFunc(all, func(key string) bool {
		return strings.HasPrefix(key, "redisson_lock_token:{") || strings.HasPrefix(key, "lockd:")
	})
}

// has says whether a master has a lock.
func has(t *testing.T, rs *redistest.Server, name string) bool {
	t.Helper()
	return rs.Client().Exists(t.Context(), name).Val() == 1
}

// recordOf is the key of a session's record.
func recordOf(session string) string { return "lockd:session:{" + session + "}" }

// recorded waits until a session can go on at another replica.
func recorded(t *testing.T, masters []*redistest.Server, session string) {
	t.Helper()
	for _, m := range masters {
		harness.Until(t, "the session has a record", func() bool { return has(t, m, recordOf(session)) })
	}
}

// statuses are what a client was told.
type statuses chan client.Status

func (s statuses) option() client.Option {
	return client.WithOnStatus(func(st client.Status) { s <- st })
}

// await waits until the client is told something. What else it was told before is not looked at.
func (s statuses) await(t *testing.T, want client.State) client.Status {
	t.Helper()
	for {
		if st := harness.Soon(t, "told "+string(want), s); st.State == want {
			return st
		}
	}
}
