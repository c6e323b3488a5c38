package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// replicas runs one server of each on a Redis.
func replicas(t *testing.T) (o, n *harness.Lockd) {
	t.Helper()
	needOld(t)
	rs := redistest.Start(t)
	start := func(p programs) *harness.Lockd {
		return harness.StartLockd(t, p.lockd, rs.Addr, "LOCKD_REPLICA="+p.name, "LOCKD_SESSION_TTL=5s",
			"LOCKD_SESSION_MIN_TTL=3s", "LOCKD_REDIS_OP_TIMEOUT=3s") // so that a Redis that stands still is waited for
	}
	return start(older), start(newer)
}

// run runs a lockctl with some servers.
func run(t *testing.T, p programs, addrs string, args ...string) *proctest.Process {
	t.Helper()
	return proctest.Start(t, p.lockctl, []string{"LOCKD_ADDR=" + addrs}, args...)
}

// count adds one to a file that only who has the lock may change: it is read, and written a little later.
const count = `n=$(cat "$1"); sleep 0.01; echo $((n + 1)) > "$1"; echo counted`

// Clients and servers of both commits exclude each other, with each kind of lock for one holder.
func TestBothExcludeEachOther(t *testing.T) {
	t.Parallel()
	o, n := replicas(t)
	const rounds = 8
	for _, kind := range []string{"exclusive", "fair", "write"} {
		file := filepath.Join(t.TempDir(), "counter")
		harness.Must(t, os.WriteFile(file, []byte("0\n"), 0o600))
		var workers sync.WaitGroup
		total := 0
		for _, p := range []programs{older, newer} {
			for _, d := range []*harness.Lockd{o, n} {
				total += rounds
				workers.Go(func() {
					for range rounds {
						c := proctest.Command(p.lockctl, []string{"LOCKD_ADDR=" + d.Addr}, "exec", "--kind", kind, kind, "--", "sh", "-c",
							count, "sh", file)
						if err := c.Launch(); err != nil {
							t.Error(err)
							return
						}
						<-c.Exited
						if c.Stdout.String() != "counted\n" {
							t.Errorf("%s lockctl: %s", p.name, c.Stderr.String())
						}
					}
				})
			}
		}
		workers.Wait()
		text, err := os.ReadFile(file)
		if got := strings.TrimSpace(string(text)); err != nil || got != strconv.Itoa(total) {
			t.Errorf("%s: counted to %s of %d: %v", kind, got, total, err)
		}
	}
}

// A lock is kept when its session moves to the other server, as in a rolling update, and back, as in one that is taken
// back. Who waits goes on waiting, and gets it.
func TestSessionsMoveFromOneToTheOther(t *testing.T) {
	t.Parallel()
	needOld(t)
	for _, p := range []programs{older, newer} {
		for _, toNew := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s client, to new %v", p.name, toNew), func(t *testing.T) {
				t.Parallel()
				from, to := replicas(t)
				if !toNew {
					from, to = to, from
				}
				addrs := from.Addr + "," + to.Addr
				end := filepath.Join(t.TempDir(), "end")
				holder := run(t, p, addrs, "exec", "job", "--", "sh", "-c", `while [ ! -e "$1" ]; do sleep 0.05; done; echo held`,
					"sh", end)
				harness.Until(t, "it is held", func() bool { return from.Metric(`lockd_locks_held{kind="exclusive"}`) == 1 })
				waiter := run(t, p, addrs, "exec", "job", "--", "echo", "got it")
				harness.Until(t, "one waits", func() bool { return from.Metric("lockd_waiters") == 1 })
				from.Signal(syscall.SIGTERM)
				harness.Until(t, "both have moved", func() bool {
					return to.Metric(`lockd_locks_held{kind="exclusive"}`) == 1 && to.Metric("lockd_waiters") == 1
				})
				<-from.Exited
				harness.Must(t, os.WriteFile(end, nil, 0o600))
				holder.Want(0, "held\n")
				waiter.Want(0, "got it\n")
			})
		}
	}
}

// Each lockctl shows what both servers have, asked at either.
func TestListsHaveBoth(t *testing.T) {
	t.Parallel()
	o, n := replicas(t)
	for _, d := range []*harness.Lockd{o, n} {
		l, err := d.Dial(t).Lock(t.Context(), "of "+d.Addr)
		harness.Must(t, err)
		defer l.Unlock(t.Context()) //nolint:errcheck // the servers end with the test
	}
	for _, p := range []programs{older, newer} {
		for _, d := range []*harness.Lockd{o, n} {
			harness.Until(t, p.name+" lockctl lists both", func() bool { // a replica may answer too late
				ls := run(t, p, d.Addr, "ls")
				code, text := ls.Code(), ls.Stdout.String()
				if code != 0 {
					t.Fatalf("%s lockctl: code %d, %s%s", p.name, code, text, ls.Stderr.String())
				}
				return strings.Contains(text, o.Addr) && strings.Contains(text, n.Addr)
			})
			if inspect := run(t, p, d.Addr, "inspect", "of "+n.Addr); inspect.Code() != 0 {
				t.Errorf("%s lockctl: %s", p.name, inspect.Stderr.String())
			}
		}
	}
}

// The SDK of this commit uses all that it has with the older server, with what that does not know as well.
func TestTheNewSDKWithTheOldServer(t *testing.T) {
	t.Parallel()
	o, _ := replicas(t)
	c := o.Dial(t)
	sc := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1},
		TraceFlags: trace.FlagsSampled,
	})
	ctx := trace.ContextWithSpanContext(t.Context(), sc) // sent in a field that an older server may not know
	events, err := c.Watch(ctx, "exclusive")
	harness.Must(t, err)
	for _, kind := range []client.Kind{client.Exclusive, client.Fair, client.Read, client.Write, client.Semaphore} {
		opts := []client.LockOption{client.As(kind), client.Wait(harness.Patience), client.Annotation("a test")}
		if kind == client.Semaphore {
			opts = append(opts, client.Permits(2, 3))
		}
		l, err := c.Lock(ctx, kind.String(), opts...)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if info, err := c.Look(ctx, kind.String()); err != nil || info.Name != kind.String() {
			t.Errorf("%s: %+v, %v", kind, info, err)
		}
		time.Sleep(10 * time.Millisecond)
		if err := l.Unlock(ctx); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	harness.Soon(t, "the unlock is told", events)
	all, err := c.LockAll(ctx, []client.Item{{Name: "a"}, {Name: "b"}})
	harness.Must(t, err)
	if err := all.Unlock(ctx); err != nil {
		t.Error(err)
	}
}
