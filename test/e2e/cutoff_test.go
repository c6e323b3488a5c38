package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// silentHolders is how many clients have a lock at a replica that is stopped, and silentTTL is their session TTL.
const (
	silentHolders = 20
	silentTTL     = 2 * shortly
)

// A replica is stopped, and its connections stay. Its clients go on at the others before the validity of their locks
// ends.
func TestHoldersOfASilentReplicaGoOnAtTheOther(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		if moves := moveFromASilentReplica(t, kind); moves < silentHolders {
			t.Errorf("%d clients moved, want %d", moves, silentHolders)
		}
	})
}

// moveFromASilentReplica stops the replica of some clients, and wakes it when they are gone. It says how often the
// others took a session over.
func moveFromASilentReplica(t *testing.T, kind storeKind) (moves int) {
	t.Helper()
	ds := kind.start(t).replicas(3)
	locks := make([]*client.Lock, silentHolders)
	for i := range locks {
		c, err := client.Dial(addrsOf(ds...), client.WithSessionTTL(silentTTL))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		locks[i] = mustLock(t, c, fmt.Sprint("job:", i))
	}
	time.Sleep(silentTTL / 2)
	ds[0].Signal(syscall.SIGSTOP)
	defer ds[0].Signal(syscall.SIGCONT)
	time.Sleep(silentTTL)
	ds[0].Signal(syscall.SIGCONT)
	time.Sleep(silentTTL)
	for _, d := range ds {
		moves += int(d.Metric(`lockd_resume_total{result="resumed"}`))
	}
	for _, l := range locks {
		if err := l.Err(); err != nil {
			t.Errorf("%s: %v", l.Name(), err)
		} else {
			mustUnlock(t, l)
		}
	}
	return moves
}

// cutTTL is the session TTL of those that are cut off, and cutRuns how many are, some at a time.
const (
	cutTTL  = 2 * time.Second
	cutRuns = 50
	cutSome = 5
	// momentTTL leaves time for a slow machine.
	momentTTL = 3 * cutTTL
)

// cutHold is a hold as its client knows it.
type cutHold struct {
	ended    func() error // why the client believes to have it no more; nil if it does
	validFor func() time.Duration
}

// cutClients take names through proxies: a client of the SDK, and one that has only the page of the protocol, and uses
// one replica.
var cutClients = map[string]func(t *testing.T, links links, ttl time.Duration, names ...string) []cutHold{
	"SDK": func(t *testing.T, links links, ttl time.Duration, names ...string) (holds []cutHold) {
		c, err := client.Dial(strings.Join(links.addrs(), ","), client.WithSessionTTL(ttl))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		for _, name := range names {
			l := mustLock(t, c, name)
			ctx := l.Context()
			holds = append(holds, cutHold{func() error { _ = ctx.Err(); return context.Cause(ctx) }, l.ValidFor})
		}
		return holds
	},
	"raw": func(t *testing.T, links links, ttl time.Duration, names ...string) (holds []cutHold) {
		r := startRaw(t, links.addrs()[0], &lockdv1.Open{SessionTtl: durationpb.New(ttl)})
		for _, name := range names {
			h := r.take(&lockdv1.Acquire{Name: name})
			left := func() time.Duration { return time.Until(r.believes(h)) }
			holds = append(holds, cutHold{func() error {
				if left() > 0 {
					return nil
				}
				return fmt.Errorf("its deadline has passed; told %w", cmp.Or(r.told(), errors.New("nothing")))
			}, left})
		}
		return holds
	},
}

// links are proxies before all replicas.
type links []*redistest.Proxy

// linksTo makes them, with that to the n-th replica first.
func linksTo(t *testing.T, ds []*harness.Lockd, n int) (ls links) {
	t.Helper()
	for i := range ds {
		ls = append(ls, redistest.StartProxy(t, ds[(n+i)%len(ds)].Addr))
	}
	return ls
}

func (ls links) addrs() (addrs []string) {
	for _, l := range ls {
		addrs = append(addrs, l.Addr)
	}
	return addrs
}

// cut has nothing arrive for some time, on connections old and new: it comes later.
func (ls links) cut(d time.Duration) {
	for _, l := range ls {
		l.Delay(d)
		l.Hold(everything)
	}
	time.Sleep(d)
	for _, l := range ls {
		l.Delay(0)
		l.Deliver()
	}
}

// cutForGood is cut without an end. What comes from the replicas is lost.
func (ls links) cutForGood() {
	for _, l := range ls {
		l.Set(redistest.Stall)
		l.Hold(everything)
	}
}

func everything([]byte) bool { return true }

// A client that is cut off from all replicas ends its work before anybody else has its locks.
func TestWhoIsCutOffEndsBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	runs := tier.Pick(cutSome, cutRuns)
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		ds := kind.start(t).replicas(3)
		for what, take := range cutClients {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				gaps := make(chan time.Duration, runs)
				for done := 0; done < runs; done += cutSome {
					var some sync.WaitGroup
					for i := done; i < done+cutSome; i++ {
						names := []string{fmt.Sprint(what, " ", i, " one"), fmt.Sprint(what, " ", i, " two")}
						ls := linksTo(t, ds, i)
						holds := take(t, ls, cutTTL, names...)
						next := ds[(i+1)%len(ds)].Dial(t)
						some.Go(func() {
							time.Sleep(time.Duration(i-done) * cutTTL / cutSome) // anywhere between two heartbeats
							ls.cutForGood()
							gaps <- succeed(t, next, holds, names)
						})
					}
					some.Wait()
				}
				close(gaps)
				shortest := time.Hour
				for gap := range gaps {
					shortest = min(shortest, gap)
				}
				t.Logf("in %d runs the next one had a lock %v after the holder had ended, at least", runs, shortest)
			})
		}
	})
}

// succeed has a client wait for what another one holds that is cut off. It says for how long nobody had anything. The
// holder is asked again and again whether it has ended: what counts is when it surely had not, as the test may be slow.
func succeed(t *testing.T, next *client.Client, holds []cutHold, names []string) (shortest time.Duration) {
	granted := make([]time.Time, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			l, err := next.Lock(t.Context(), name)
			granted[i] = time.Now()
			if err == nil {
				err = l.Unlock(t.Context())
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	believed := make([]time.Time, len(holds))
	for i, h := range holds {
		all.Go(func() {
			for now := time.Now(); h.ended() == nil; now = time.Now() {
				believed[i] = now
				time.Sleep(max(h.validFor()/2, time.Millisecond))
			}
		})
	}
	all.Wait()
	shortest = time.Hour
	for i, name := range names {
		gap := granted[i].Sub(believed[i])
		if shortest = min(shortest, gap); gap <= 0 {
			t.Errorf("%s was granted %v before its holder had ended", name, -gap)
		}
	}
	return shortest
}

// A client that is cut off from all replicas for a shorter time than its locks are valid notices nothing.
func TestWhoIsCutOffForAMomentGoesOn(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		ds := kind.start(t).replicas(3)
		for what, take := range cutClients {
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				var all sync.WaitGroup
				for i := range cutSome {
					name := fmt.Sprint(what, " ", i)
					ls := linksTo(t, ds, i)
					hold := take(t, ls, momentTTL, name)[0]
					all.Go(func() {
						time.Sleep(momentTTL/3 + time.Duration(i)*momentTTL/3/cutSome)
						ls.cut(hold.validFor() / 2)
						for end := time.Now().Add(momentTTL); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
							if err := hold.ended(); err != nil {
								t.Errorf("%s: %v", name, err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	})
}

// The answer to a request is lost with its stream. The client hears what became of it at the other replica.
func TestWhatBecameOfARequestIsToldElsewhere(t *testing.T) {
	t.Parallel()
	fixed := client.Lease(20 * time.Second)
	ends := func(st *store, l *client.Lock) time.Duration { return st.look(l.Name()).pttl }
	cases := map[string]struct {
		opts []client.LockOption
		ask  func(t *testing.T, l *client.Lock) error
		done func(st *store, l *client.Lock) bool // the store has it
		want func(l *client.Lock) bool
	}{
		"release": {
			nil, func(t *testing.T, l *client.Lock) error { return l.Unlock(t.Context()) },
			func(st *store, l *client.Lock) bool { return st.free(l.Name()) },
			func(l *client.Lock) bool { return errors.Is(l.Err(), client.ErrUnlocked) },
		},
		"extend": {
			[]client.LockOption{fixed},
			func(t *testing.T, l *client.Lock) error { return l.Extend(t.Context(), longLease) },
			func(st *store, l *client.Lock) bool { return ends(st, l) > time.Minute },
			func(l *client.Lock) bool { return l.ValidFor() > time.Minute },
		},
		"make fixed": {
			nil, func(t *testing.T, l *client.Lock) error { return l.MakeFixed(t.Context(), longLease) },
			func(st *store, l *client.Lock) bool { return ends(st, l) > time.Minute },
			func(l *client.Lock) bool { return l.ValidFor() > time.Minute },
		},
		"shorten": {
			[]client.LockOption{client.Lease(longLease)},
			func(t *testing.T, l *client.Lock) error { return l.Shorten(t.Context(), time.Minute) },
			func(st *store, l *client.Lock) bool { return ends(st, l) <= 61*time.Second },
			func(l *client.Lock) bool { return l.ValidFor() <= time.Minute && l.ValidFor() > 30*time.Second },
		},
		permits: {
			[]client.LockOption{client.Permits(5, 5)},
			func(t *testing.T, l *client.Lock) error {
				left, err := l.KeepPermits(t.Context(), 2)
				if left != 2 {
					t.Errorf("%d permits are left", left)
				}
				return err
			},
			func(st *store, l *client.Lock) bool {
				n, _ := st.clients[0].Get(t.Context(), l.Name()).Int()
				return n == 3
			},
			func(l *client.Lock) bool { return l.Err() == nil },
		},
	}
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		st := kind.start(t)
		ds := st.replicas(2)
		for what, c := range cases {
			if what == permits && kind.masters > 1 {
				continue // a majority has no semaphores
			}
			t.Run(what, func(t *testing.T) {
				t.Parallel()
				proxy := redistest.StartProxy(t, ds[0].Addr)
				cl, err := client.Dial(proxy.Addr+","+ds[1].Addr, client.WithAnswerTimeout(patience))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cl.Close() })
				l := mustLock(t, cl, what, c.opts...)
				proxy.Set(redistest.Mute)
				asked := make(chan error, 1)
				go func() { asked <- c.ask(t, l) }()
				harness.Until(t, "it is done", func() bool { return c.done(st, l) })
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
	})
}

const (
	permits   = "permits"
	longLease = 9 * time.Minute
)

// A session holds as many locks as it may, with names that do not fit into a frame together. Its replica is killed.
func TestHoldersOfManyLocksGoOn(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	const most, each = 10_000, 50
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		ds := kind.start(t).replicas(2)
		a, b := ds[0], ds[1]
		connected := make(chan struct{}, 10)
		told := client.WithOnStatus(func(s client.Status) {
			if s.State == client.Connected {
				connected <- struct{}{}
			}
		})
		c, err := client.Dial(addrsOf(ds...), client.WithSessionTTL(time.Minute), told)
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
	})
}
