package redisson

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/lockdtest"
	"github.com/lockd-io/lockd/internal/redistest"
)

const (
	// patience bounds what should come soon and has no time of its own.
	patience = 30 * time.Second
	// sideBySide is how many tests run at a time among those that may: they mostly wait.
	sideBySide = "6"
	// long is a TTL for tests in which nobody dies, short one for the others.
	long, short = 30 * time.Second, 3 * time.Second
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if addr := os.Getenv(puppetEnv); addr != "" {
		return puppetMain(addr)
	}
	redis.SetLogger(quiet{})
	if err := widen(); err != nil {
		fmt.Fprintln(os.Stderr, "redisson:", err)
		return 1
	}
	defer lockdtest.Clean()
	code := m.Run()
	if a, err := sharedAgent(); err == nil {
		a.kill()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "redisson:", err)
		return 1
	}
	return code
}

// widen lets more tests run side by side than there are processors, unless the command line says how many.
func widen() error {
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", sideBySide)
}

// quiet takes the place of go-redis's logger: that a server is not there yet, or any more, is what tests are about.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// readSources looks at the sources of lockd and of the agent, once. go test repeats a cached result unless what the
// tests themselves looked at has changed, and what go build and Maven look at does not count.
var readSources = sync.OnceValue(func() error {
	var errs []error
	look := func(_ string, _ fs.DirEntry, err error) error { return err }
	for _, dir := range []string{"api/gen/go", "client", "cmd", "internal"} {
		errs = append(errs, filepath.WalkDir(filepath.Join("..", "..", dir), look))
	}
	_, err := sources()
	return errors.Join(append(errs, err)...)
})

// stage is a Redis with a lockd and a Redisson client, for one test.
type stage struct {
	t        *testing.T
	redis    *redistest.Server
	rc       *redis.Client
	lockd    *lockd
	redisson *redisson
	ttl      time.Duration
	services func() (lockdv1.LockServiceClient, lockdv1.AdminServiceClient)
}

// newStage sets the TTL of lockd's sessions and that of Redisson's watchdog.
func newStage(t *testing.T, ttl time.Duration) *stage {
	t.Helper()
	if err := readSources(); err != nil {
		t.Fatal(err)
	}
	a, err := sharedAgent()
	if err != nil {
		t.Fatal(err)
	}
	rs := redistest.Start(t)
	s := &stage{
		t: t, redis: rs, rc: rs.Client(), ttl: ttl,
		lockd: startLockd(t, rs.Addr, ttl), redisson: a.connect(t, rs.Addr, ttl),
	}
	s.services = sync.OnceValues(s.unary)
	return s
}

// dial makes a client of lockd with a connection of its own.
func (s *stage) dial() *client.Client {
	s.t.Helper()
	c, err := client.Dial(s.lockd.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // lockd may be gone
	return c
}

// unary connects to lockd's unary services.
func (s *stage) unary() (lockdv1.LockServiceClient, lockdv1.AdminServiceClient) {
	s.t.Helper()
	connect := func(addr string) *grpc.ClientConn {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	return lockdv1.NewLockServiceClient(connect(s.lockd.addr)), lockdv1.NewAdminServiceClient(connect(s.lockd.admin))
}

// get is what lockd knows of a name.
func (s *stage) get(name string) *lockdv1.LockState {
	s.t.Helper()
	locks, _ := s.services()
	r, err := locks.Get(s.t.Context(), &lockdv1.GetRequest{Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetLock()
}

// granted is the outcome of a Lock call.
type granted struct {
	lock *client.Lock
	err  error
	at   time.Time
}

// lock takes a lock of lockd.
func (s *stage) lock(c *client.Client, k kind, name string) *client.Lock {
	s.t.Helper()
	g := soon(s.t, "lockd grants "+name, s.wait(c, k, name))
	if g.err != nil {
		s.t.Fatal(g.err)
	}
	return g.lock
}

// wait begins to wait for a lock of lockd.
func (s *stage) wait(c *client.Client, k kind, name string) <-chan granted {
	out := make(chan granted, 1)
	go func() {
		l, err := c.Lock(s.t.Context(), name, k.opts...)
		out <- granted{l, err, time.Now()}
	}()
	return out
}

func (s *stage) unlock(l *client.Lock) {
	s.t.Helper()
	if err := l.Unlock(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// waiting waits until so many requests wait at lockd for a name.
func (s *stage) waiting(name string, n int) {
	s.t.Helper()
	within(s.t, patience, fmt.Sprint(n, " wait at lockd for ", name), func() bool { return int(s.get(name).GetWaiters()) >= n })
}

// subscribed waits until so many clients listen to channels of a name in any of the ways that Redisson has.
func (s *stage) subscribed(name string, n int) {
	s.t.Helper()
	within(s.t, patience, "Redisson waits for "+name, func() bool {
		found, err := s.rc.PubSubChannels(s.t.Context(), "*{"+name+"}*").Result()
		if err != nil {
			s.t.Fatal(err)
		}
		count := 0
		for _, channel := range found {
			if !strings.HasPrefix(channel, "lockd") {
				count++
			}
		}
		return count >= n
	})
}

func within(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// soon receives from a channel on which something must come.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}
