package broker_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redlock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// distant is a member as one replica sees it: so far away, and perhaps not there.
type distant struct {
	faults
	way   time.Duration // there, and as long back
	state presence
}

type presence int

const (
	well presence = iota
	gone
	still
)

// across makes a call over the distance.
func (d *distant) across(next func() error) error {
	switch d.state {
	case gone:
		return lock.ErrUnavailable
	case still:
		time.Sleep(time.Second)
		return errUnknown
	case well:
	}
	time.Sleep(d.way)
	err := next()
	time.Sleep(d.way)
	return err
}

// Listen hears what was told when it comes over the distance.
func (d *distant) Listen(name string, k lock.Kind, notify func(lock.Notice)) (stop func()) {
	if d.state != well {
		return func() {}
	}
	return d.Store.Listen(name, k, func(n lock.Notice) { time.AfterFunc(d.way, func() { notify(n) }) })
}

// layout is where members are, and which of them are there.
type layout struct {
	members       int
	replicas      int
	distance      time.Duration // of a replica to all members but the one near it
	gone, still   int           // members
	near          time.Duration // of a replica to the member near it
	clients, hold int           // clients of each replica; ms
}

func (l layout) String() string {
	return fmt.Sprintf("%d replicas, %d members %v apart, %d gone, %d silent",
		l.replicas, l.members, l.distance, l.gone, l.still)
}

// course is what came of some contention.
type course struct {
	grants   int
	of       []int // grants of each replica
	attempts int64 // of all replicas
}

// contend has clients of all replicas take one name and give it back again and again, for so long.
func (l layout) contend(t *testing.T, span time.Duration) (c course) {
	synctest.Test(t, func(t *testing.T) {
		stores := make([]lock.Store, l.members)
		for i := range stores {
			stores[i] = memstore.New()
		}
		var of []*distant
		var replicas []*world
		there := l.members - l.gone - l.still
		for r := range l.replicas {
			var all []lock.Store
			for i, s := range stores {
				d := &distant{faults: faults{Store: s}, way: l.near / 2}
				for _, verb := range []string{"Acquire", "Release", "Raise", "Look"} {
					d.on(verb, d.across)
				}
				of = append(of, d)
				if i != r%there {
					d.way += l.distance / 2
				}
				switch {
				case i >= l.members-l.still:
					d.state = still
				case i >= there:
					d.state = gone
				}
				all = append(all, d)
			}
			s, err := redlock.New(redlock.Config{}, all, zap.NewNop(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			replicas = append(replicas, startOn(t, testConfig(), s))
		}
		end := time.Now().Add(span)
		var mu sync.Mutex // guards c
		c.of = make([]int, l.replicas)
		var inside atomic.Int32
		var wg sync.WaitGroup
		for i := range l.clients * l.replicas {
			cl := replicas[i%l.replicas].alive()
			wg.Go(func() {
				for {
					left := time.Until(end)
					if left <= 0 {
						return
					}
					cl.acquire(request.Acquire{Name: "job", Wait: &left})
					granted, ok := cl.await().(session.Granted)
					if !ok {
						return
					}
					if n := inside.Add(1); n > 1 {
						t.Errorf("%v: %d hold it", l, n)
					}
					mu.Lock()
					c.grants++
					c.of[i%l.replicas]++
					mu.Unlock()
					time.Sleep(time.Duration(l.hold) * time.Millisecond)
					inside.Add(-1)
					cl.Release(cl.id(), granted.Hold)
					if e, ok := cl.await().(session.Released); !ok {
						t.Errorf("%v: got %#v", l, e)
					}
				}
			})
		}
		wg.Wait()
		for _, d := range of {
			c.attempts += d.acquires.Load()
		}
		c.attempts /= int64(l.members)
		time.Sleep(time.Minute) // until what is left is over
	})
	return c
}

// fewest is how many grants the replica had that had the fewest.
func (c course) fewest() int { return slices.Min(c.of) }

// Replicas each of which is nearer to another member than the others are all get the name, though each comes first at
// its member. Members that are silent make it no slower than such that are gone.
func TestReplicasNearOtherMembersShareAMajority(t *testing.T) {
	span := tier.Pick(2*time.Second, 10*time.Second)
	distances := []time.Duration{time.Millisecond, 0, 10 * time.Millisecond}
	for _, distance := range distances[:tier.Pick(1, 3)] {
		granted := map[presence]int{}
		for _, away := range []presence{well, gone, still} {
			l := layout{members: 5, replicas: 3, clients: 1, hold: 2, near: time.Millisecond, distance: distance}
			switch away {
			case gone:
				l.gone = 2
			case still:
				l.still = 2
			case well:
			}
			c := l.contend(t, span)
			t.Logf("%v: %v were granted in %v, %d attempts", l, c.of, span, c.attempts)
			granted[away] = c.grants
			if c.fewest() == 0 {
				t.Errorf("%v: %v were granted in %v", l, c.of, span)
			}
			if most := int64(1500 * span / time.Second); c.attempts > most {
				t.Errorf("%v: %d attempts in %v, want %d at most", l, c.attempts, span, most)
			}
		}
		if granted[still] < granted[gone]/2 {
			t.Errorf("%v apart: %d were granted with members that are silent, and %d without them", distance,
				granted[still], granted[gone])
		}
	}
}
