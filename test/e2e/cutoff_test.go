package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// links are the networks between a client and all replicas.
type links []*redistest.Proxy

// dialOver makes a client that reaches all replicas through links of its own, the n-th replica first.
func dialOver(t *testing.T, ds []*harness.Lockd, n int, opts ...client.Option) (*client.Client, links) {
	t.Helper()
	var ls links
	var addrs []string
	for i := range ds {
		p := redistest.StartProxy(t, ds[(n+i)%len(ds)].Addr)
		ls, addrs = append(ls, p), append(addrs, p.Addr)
	}
	return harness.Dial(t, strings.Join(addrs, ","), opts...), ls
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

// cutSome is how many are cut off at a time.
const cutSome = 5

// A client that is cut off from all replicas ends its work before anybody else has its locks.
func TestWhoIsCutOffEndsBeforeTheNextBegins(t *testing.T) {
	onEachStore(t, func(t *testing.T, masters []*redistest.Server) {
		ds := startReplicas(t, masters, 3, soonOver)
		for round := range tier.Pick(1, 10) {
			var all sync.WaitGroup
			for i := range cutSome {
				c, ls := dialOver(t, ds, i)
				name := fmt.Sprint("job ", round, " ", i)
				held, next := mustLock(t, c, name), ds[(i+1)%len(ds)].Dial(t)
				all.Go(func() {
					time.Sleep(time.Duration(i) * shortly / cutSome) // anywhere between two heartbeats
					ls.cutForGood()
					succeed(t, next, held)
				})
			}
			all.Wait()
		}
	})
}

// succeed has a client wait for what another one holds that is cut off. The holder is asked again and again whether it
// has ended: what counts is when it surely had not, as the test may be slow.
func succeed(t *testing.T, next *client.Client, held *client.Lock) {
	var believed, granted time.Time
	var both sync.WaitGroup
	both.Go(func() {
		for now, ctx := time.Now(), held.Context(); ctx.Err() == nil; now = time.Now() {
			believed = now
			time.Sleep(max(held.ValidFor()/2, time.Millisecond))
		}
	})
	both.Go(func() {
		l, err := next.Lock(t.Context(), held.Name())
		granted = time.Now()
		if err == nil {
			err = l.Unlock(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", held.Name(), err)
		}
	})
	both.Wait()
	if gap := granted.Sub(believed); gap <= 0 {
		t.Errorf("%s was granted %v before its holder had ended", held.Name(), -gap)
	}
}

// A client that is cut off from all replicas for a shorter time than its locks are valid notices nothing.
func TestWhoIsCutOffForAMomentGoesOn(t *testing.T) {
	const ttl, moment = 15 * time.Second, 2 * time.Second // which leaves time for a slow machine
	onEachStore(t, func(t *testing.T, masters []*redistest.Server) {
		ds := startReplicas(t, masters, 3, soonOver)
		var all sync.WaitGroup
		for i := range cutSome {
			c, ls := dialOver(t, ds, i, client.WithSessionTTL(ttl))
			l := mustLock(t, c, fmt.Sprint("job ", i))
			all.Go(func() {
				time.Sleep(time.Duration(i) * ttl / 3 / cutSome) // anywhere between two heartbeats
				ls.cut(moment)
				end := l.Deadline()
				harness.Until(t, "it is renewed", func() bool { return l.Deadline().After(end) || l.Err() != nil })
				if err := l.Err(); err != nil {
					t.Errorf("%s: %v", l.Name(), err)
				}
			})
		}
		all.Wait()
	})
}
