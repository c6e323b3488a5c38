package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// A replica is stopped, and its connections stay. Its clients go on at the other one before the validity of their locks
// ends.
func TestHoldersOfASilentReplicaGoOnAtTheOther(t *testing.T) {
	t.Parallel()
	const (
		holders = 20
		ttl     = 2 * shortly
	)
	_, a, b := twoReplicas(t)
	var mu sync.Mutex
	var left []time.Duration // validity when it went on
	locks := make([]*client.Lock, holders)
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			connected := 0
			c, err := client.Dial(a.Addr+","+b.Addr, client.WithSessionTTL(ttl), client.WithOnStatus(func(s client.Status) {
				mu.Lock()
				defer mu.Unlock()
				if s.State == client.Connected {
					connected++
				}
				if connected > 1 && locks[i] != nil {
					left = append(left, locks[i].ValidFor())
				}
			}))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			l, err := c.Lock(t.Context(), fmt.Sprint("job:", i))
			mu.Lock()
			defer mu.Unlock()
			if locks[i] = l; err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	time.Sleep(ttl / 2)
	a.Signal(syscall.SIGSTOP)
	defer a.Signal(syscall.SIGCONT)
	shortest := ttl
	for end := time.Now().Add(ttl); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, l := range locks {
			shortest = min(shortest, l.ValidFor())
		}
	}
	a.Signal(syscall.SIGCONT)
	time.Sleep(ttl)
	mu.Lock()
	defer mu.Unlock()
	for _, l := range locks {
		if err := l.Err(); err != nil {
			t.Errorf("%s: %v", l.Name(), err)
		} else {
			mustUnlock(t, l)
		}
	}
	t.Logf("the shortest validity was %v of %v; %d clients moved", shortest, ttl, len(left))
	if len(left) != holders {
		t.Errorf("%d clients moved, want %d, once each", len(left), holders)
	}
}

// cutTTL is the session TTL of those that are cut off, and cutRuns how many are, some at a time.
const (
	cutTTL  = 2 * time.Second
	cutRuns = 50
	cutSome = 10
	// momentTTL leaves time for a slow machine.
	momentTTL = 3 * cutTTL
)

// holderOf takes a lock through a proxy, and says how to see that it believes to have it no more.
type holderOf func(t *testing.T, addr, name string, ttl time.Duration) (ended func() error)

// holders are a client of the SDK, and one that has only the page of the protocol.
var holders = map[string]holderOf{
	"SDK": func(t *testing.T, addr, name string, ttl time.Duration) func() error {
		c, err := client.Dial(addr, client.WithSessionTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		held := mustLock(t, c, name).Context()
		return func() error { _ = held.Err(); return context.Cause(held) }
	},
	"raw": func(t *testing.T, addr, name string, ttl time.Duration) func() error {
		r := startRaw(t, addr, &lockdv1.Open{SessionTtl: durationpb.New(ttl)})
		h := r.take(&lockdv1.Acquire{Name: name})
		return func() error {
			if late := time.Since(r.believes(h)); late >= 0 {
				return fmt.Errorf("its deadline passed %v ago; told %w", late, cmp.Or(r.told(), errors.New("nothing")))
			}
			return nil
		}
	},
}

func everything([]byte) bool { return true }

// A client that is cut off ends its work before anybody else has its lock.
func TestWhoIsCutOffEndsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	runs := cutSome
	if os.Getenv(longEnv) != "" {
		runs = cutRuns
	}
	rs := redistest.Start(t)
	d := startLockd(t, rs.Addr)
	for what, hold := range holders {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			next := d.Dial(t)
			shortest := time.Hour
			for done := 0; done < runs; done += cutSome {
				var mu sync.Mutex
				var some sync.WaitGroup
				for i := range cutSome {
					name := fmt.Sprint(what, " ", done+i)
					proxy := redistest.StartProxy(t, d.Addr)
					ended := hold(t, proxy.Addr, name, cutTTL)
					some.Go(func() {
						time.Sleep(time.Duration(i) * cutTTL / cutSome) // anywhere between two heartbeats
						proxy.Hold(everything)
						defer proxy.Deliver()
						granted := make(chan time.Time, 1)
						go func() {
							l, err := next.Lock(t.Context(), name)
							at := time.Now()
							if err == nil {
								err = l.Unlock(t.Context())
							}
							if err != nil {
								t.Errorf("%s: %v", name, err)
							}
							granted <- at
						}()
						for ended() == nil {
							time.Sleep(time.Millisecond)
						}
						over := time.Now()
						gap := harness.Soon(t, name+" is granted", granted).Sub(over)
						mu.Lock()
						defer mu.Unlock()
						if shortest = min(shortest, gap); gap <= 0 {
							t.Errorf("%s was granted %v before its holder had ended", name, -gap)
						}
					})
				}
				some.Wait()
			}
			t.Logf("in %d runs the next one had the lock %v after the holder had ended, at least", runs, shortest)
		})
	}
}

// A client that is cut off for a shorter time notices nothing.
func TestWhoIsCutOffForAMomentGoesOn(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	d := startLockd(t, rs.Addr)
	for what, hold := range holders {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			var all sync.WaitGroup
			for i := range cutSome {
				name := fmt.Sprint(what, " ", i)
				proxy := redistest.StartProxy(t, d.Addr)
				ended := hold(t, proxy.Addr, name, momentTTL)
				all.Go(func() {
					time.Sleep(momentTTL/3 + time.Duration(i)*momentTTL/3/cutSome)
					proxy.Hold(everything)
					time.Sleep(momentTTL / 8)
					proxy.Deliver()
					for end := time.Now().Add(momentTTL); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						if err := ended(); err != nil {
							t.Errorf("%s: %v", name, err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// The answer to a request is lost with its stream. The client hears what became of it at the other replica.
func TestWhatBecameOfARequestIsToldElsewhere(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	fixed := client.Lease(20 * time.Second)
	ends := func(name string) time.Duration { return look(t, rc, name).pttl }
	for what, c := range map[string]struct {
		opts []client.LockOption
		ask  func(t *testing.T, l *client.Lock) error
		done func(l *client.Lock) bool // Redis has it
		want func(l *client.Lock) bool
	}{
		"release": {
			nil, func(t *testing.T, l *client.Lock) error { return l.Unlock(t.Context()) },
			func(l *client.Lock) bool { return look(t, rc, l.Name()).owner() == "" },
			func(l *client.Lock) bool { return errors.Is(l.Err(), client.ErrUnlocked) },
		},
		"extend": {
			[]client.LockOption{fixed},
			func(t *testing.T, l *client.Lock) error { return l.Extend(t.Context(), time.Hour) },
			func(l *client.Lock) bool { return ends(l.Name()) > time.Minute },
			func(l *client.Lock) bool { return l.ValidFor() > time.Minute },
		},
		"make fixed": {
			nil, func(t *testing.T, l *client.Lock) error { return l.MakeFixed(t.Context(), time.Hour) },
			func(l *client.Lock) bool { return ends(l.Name()) > time.Minute },
			func(l *client.Lock) bool { return l.ValidFor() > time.Minute },
		},
		"shorten": {
			[]client.LockOption{client.Lease(time.Hour)},
			func(t *testing.T, l *client.Lock) error { return l.Shorten(t.Context(), time.Minute) },
			func(l *client.Lock) bool { return ends(l.Name()) <= time.Minute },
			func(l *client.Lock) bool { return l.ValidFor() <= time.Minute && l.ValidFor() > 30*time.Second },
		},
		"permits": {
			[]client.LockOption{client.Permits(5, 5)},
			func(t *testing.T, l *client.Lock) error {
				left, err := l.KeepPermits(t.Context(), 2)
				if left != 2 {
					t.Errorf("%d permits are left", left)
				}
				return err
			},
			func(l *client.Lock) bool { n, _ := rc.Get(t.Context(), l.Name()).Int(); return n == 3 },
			func(l *client.Lock) bool { return l.Err() == nil },
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.StartProxy(t, a.Addr)
			cl, err := client.Dial(proxy.Addr+","+b.Addr, client.WithAnswerTimeout(patience))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cl.Close() })
			l := mustLock(t, cl, what, c.opts...)
			proxy.Set(redistest.Mute)
			asked := make(chan error, 1)
			go func() { asked <- c.ask(t, l) }()
			harness.Until(t, "it is done", func() bool { return c.done(l) })
			proxy.CutAll()
			if err := harness.Soon(t, "it is told", asked); err != nil {
				t.Errorf("told %v", err)
			}
			time.Sleep(2 * shortly)
			if !c.want(l) {
				t.Errorf("%v, valid for %v", l.Err(), l.ValidFor())
			}
		})
	}
}

// A session holds as many locks as it may, with names that do not fit into a frame together. Its replica is killed.
func TestHoldersOfManyLocksGoOn(t *testing.T) {
	t.Parallel()
	const most, each = 10_000, 50
	_, a, b := twoReplicas(t)
	connected := make(chan struct{}, 10)
	told := client.WithOnStatus(func(s client.Status) {
		if s.State == client.Connected {
			connected <- struct{}{}
		}
	})
	c, err := client.Dial(a.Addr+","+b.Addr, client.WithSessionTTL(time.Minute), told)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	long := strings.Repeat("n", 200)
	var sets []*client.Locks
	for i := 0; i < most; i += each {
		var items []client.Item
		for n := range each {
			items = append(items, client.Item{Name: fmt.Sprint(long, i+n)})
		}
		ls, err := c.LockAll(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, ls)
	}
	harness.Soon(t, "it is connected", connected)
	a.Signal(syscall.SIGKILL)
	harness.Soon(t, "it goes on", connected)
	if held := b.Metric(`lockd_locks_held{kind="exclusive"}`); held != most {
		t.Errorf("it goes on with %v locks of %d", held, most)
	}
	for _, ls := range sets {
		if err := ls.Err(); err != nil {
			t.Fatal(err)
		}
	}
}
