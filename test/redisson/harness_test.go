package redisson

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	// long is a TTL for tests in which nobody dies: so long that nothing comes because a lease ended. short is one for the
	// others.
	long, short = 3 * harness.Patience, 6 * time.Second
)

func TestMain(m *testing.M) {
	flag.Parse()
	if addr := os.Getenv(puppetEnv); addr != "" {
		os.Exit(puppetMain(addr))
	}
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "6", After: func() {
		if a, err := sharedAgent(); err == nil {
			a.Kill()
		}
	}}))
}

// stage is a Redis with a lockd and a Redisson client, for one test.
type stage struct {
	t        *testing.T
	nodes    []*redistest.Server
	servers  []*redis.Client   // of nodes
	redis    *redistest.Server // nil if there are several
	rc       *redis.Client     // of redis
	lockd    *harness.Lockd
	redisson *redisson
	ttl      time.Duration
	services func() (lockdv1.LockServiceClient, lockdv1.AdminServiceClient)
}

// newStage sets the TTL of lockd's sessions and that of Redisson's watchdog.
func newStage(t *testing.T, ttl time.Duration) *stage {
	t.Helper()
	rs := redistest.Start(t)
	s := newStageAt(t, []*redistest.Server{rs}, ttl, "redis://"+rs.Addr, "LOCKD_STORE_KIND=standalone",
		"LOCKD_REDIS_ADDR="+rs.Addr)
	s.redis, s.rc = rs, s.servers[0]
	return s
}

// newStageAt is newStage where there are other servers: Redisson is told where they are, and lockd by variables.
func newStageAt(t *testing.T, servers []*redistest.Server, ttl time.Duration, at string, env ...string) *stage {
	t.Helper()
	a, err := sharedAgent()
	harness.Must(t, err)
	bin, err := harness.Build("lockd")
	harness.Must(t, err)
	s := &stage{
		t: t, ttl: ttl, nodes: servers, redisson: a.connect(t, at, ttl),
		lockd: harness.StartLockdOn(t, bin, append(env, "LOCKD_SESSION_TTL="+ttl.String())...),
	}
	for _, server := range servers {
		s.servers = append(s.servers, server.Client())
	}
	s.services = sync.OnceValues(s.unary)
	return s
}

// onEach runs a test for each kind, or pair of kinds, side by side on one stage, with a name of its own.
func onEach[T fmt.Stringer](t *testing.T, ttl time.Duration, all []T, test func(s *stage, of T, name string)) {
	t.Parallel()
	s := newStage(t, ttl)
	s.services()
	for _, of := range all {
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			own, r := *s, *s.redisson
			own.t, r.t, r.workers = t, t, of.String()
			own.redisson = &r
			test(&own, of, "job-"+of.String())
		})
	}
}

// unary connects to lockd's unary services.
func (s *stage) unary() (lockdv1.LockServiceClient, lockdv1.AdminServiceClient) {
	s.t.Helper()
	return lockdv1.NewLockServiceClient(s.lockd.Connect(s.t)), lockdv1.NewAdminServiceClient(s.lockd.Operate(s.t))
}

// theirs has Redisson make a semaphore, and an operator say to lockd that it is one.
func (s *stage) theirs(name string, limit uint32) {
	s.t.Helper()
	s.redisson.worker("main").ask("limit", "semaphore", name, limit)
	_, admin := s.services()
	_, err := admin.AdoptLimit(s.t.Context(), &lockdv1.AdoptLimitRequest{Name: name, Limit: limit})
	harness.Must(s.t, err)
}

// get is what lockd knows of a name.
func (s *stage) get(name string) *lockdv1.LockState {
	s.t.Helper()
	locks, _ := s.services()
	r, err := locks.Get(s.t.Context(), &lockdv1.GetRequest{Name: name})
	harness.Must(s.t, err)
	return r.GetLock()
}

// granted is the outcome of a Lock call.
type granted struct {
	lock *client.Lock
	err  error
}

// lock takes a lock of lockd.
func (s *stage) lock(c *client.Client, k kind, name string) *client.Lock {
	s.t.Helper()
	return s.soon(s.wait(c, k, name))
}

// soon is what must be granted.
func (s *stage) soon(waiter <-chan granted) *client.Lock {
	s.t.Helper()
	g := harness.Soon(s.t, "lockd grants what was released", waiter)
	if g.err != nil {
		s.t.Fatal(g.err)
	}
	return g.lock
}

// none fails the test if lockd granted what Redisson holds.
func (s *stage) none(waiter <-chan granted) {
	s.t.Helper()
	select {
	case g := <-waiter:
		s.t.Fatalf("lockd granted what Redisson holds: %v", g.err)
	default:
	}
}

// wait begins to wait for a lock of lockd.
func (s *stage) wait(c *client.Client, k kind, name string) <-chan granted {
	out := make(chan granted, 1)
	go func() {
		l, err := c.Lock(s.t.Context(), name, k.opts...)
		out <- granted{l, err}
	}()
	return out
}

func (s *stage) unlock(l *client.Lock) {
	s.t.Helper()
	harness.Must(s.t, l.Unlock(s.t.Context()))
}

// waiting waits until so many requests wait at lockd for a name.
func (s *stage) waiting(name string, n int) {
	s.t.Helper()
	harness.Until(s.t, fmt.Sprint(n, " wait at lockd for ", name),
		func() bool { return int(s.get(name).GetWaiters()) >= n })
}

// subscribed waits until so many clients listen to channels of a name in any of the ways that Redisson has.
func (s *stage) subscribed(name string, n int) {
	s.t.Helper()
	harness.Until(s.t, "Redisson waits for "+name, func() bool { return s.listeners(name) >= n })
}

// listens waits until Redisson listens for a name that it was told to acquire, or has answered what kept it from that.
func (s *stage) listens(waiting *call, name string) error {
	s.t.Helper()
	harness.Until(s.t, "Redisson waits for "+name, func() bool { return waiting.answered() || s.listeners(name) > 0 })
	if !waiting.answered() {
		return nil
	}
	return cmp.Or(waiting.err, errors.New("it has what lockd holds"))
}

// listeners counts the channels of a name to which anybody but lockd listens, at all nodes.
func (s *stage) listeners(name string) (count int) {
	s.t.Helper()
	for i, server := range s.servers {
		if !s.nodes[i].Answers() {
			continue
		}
		for _, channels := range []string{"channels", "shardchannels"} {
			found, err := server.Do(s.t.Context(), "pubsub", channels, "*"+name+"*").StringSlice()
			if err != nil {
				continue // it knows no shards
			}
			found = slices.DeleteFunc(found, func(channel string) bool { return strings.HasPrefix(channel, "lockd") })
			count += len(found)
		}
	}
	return count
}
