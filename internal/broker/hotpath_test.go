package broker_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/benchtest"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	// hotBatch is how many requests a session of a benchmark has under way.
	hotBatch = 64
	// mostAllocs is how often the broker, with the watchdog, may allocate for a pair.
	mostAllocs = 16
)

// free is a Store that grants everything and does nothing, so that what a pair costs is the broker's. What is asked in
// one lane is answered by one goroutine, many at a time, as by a pipeline. The first byte of a name says which lane.
type free struct {
	lock.Store
	lanes    [8]lane
	renewals atomic.Int64
}

type lane struct {
	fence lock.Fence
	wake  chan struct{} // size 1

	mu    sync.Mutex
	asked []question
}

// question is a call under way. Either acquired or released is to be told of it.
type question struct {
	ttl      time.Duration
	acquired func(lock.Grant, error)
	released func(lock.Returned, error)
}

func newFree(tb testing.TB) *free {
	f := &free{Store: memstore.New()}
	for i := range f.lanes {
		l := &f.lanes[i]
		l.wake = make(chan struct{}, 1)
		go l.answer()
		tb.Cleanup(func() { close(l.wake) })
	}
	return f
}

func (f *free) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	f.ask(c.Name, question{ttl: c.TTL, acquired: done})
}

func (f *free) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	f.ask(r.Name, question{released: done})
}

func (f *free) ask(name string, q question) {
	l := &f.lanes[int(name[0])%len(f.lanes)]
	l.mu.Lock()
	l.asked = append(l.asked, q)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) answer() {
	var spare []question
	for range l.wake {
		l.mu.Lock()
		asked := l.asked
		l.asked = spare[:0]
		l.mu.Unlock()
		for _, q := range asked {
			if q.acquired != nil {
				l.fence++
				q.acquired(lock.Grant{Fence: l.fence, TTL: q.ttl}, nil)
			} else {
				q.released(lock.Returned{}, nil)
			}
		}
		clear(asked)
		if spare = asked; cap(asked) > 16*hotBatch { // what many once needed is not the broker's
			spare = nil
		}
	}
}

func (f *free) Renew(_ context.Context, rs []lock.Renewal, done func(int, error)) {
	for i := range rs {
		done(i, nil)
	}
	f.renewals.Add(int64(len(rs)))
}

// newHot is a broker on a free store.
func newHot(tb testing.TB) *broker.Broker { return startOn(tb, testConfig(), newFree(tb)).b }

// hotSession is a session that locks and unlocks names of its own.
type hotSession struct {
	*broker.Session
	names []string
	holds []session.Hold
	id    uint64
}

func openHot(tb testing.TB, b *broker.Broker) *hotSession {
	s, err := b.Open(session.OpenRequest{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Goodbye)
	hot := &hotSession{Session: s}
	for i := range hotBatch {
		hot.names = append(hot.names, fmt.Sprint(s.ID(), "/", i))
	}
	return hot
}

// pairs makes hotBatch pairs, the locks together and then the unlocks.
func (s *hotSession) pairs() {
	s.Hear()
	for _, name := range s.names {
		s.id++
		s.Acquire(s.id, request.Acquire{Name: name, Kind: lock.Exclusive})
	}
	s.holds = s.holds[:0]
	s.answers()
	s.Hear()
	for _, h := range s.holds {
		s.id++
		s.Release(s.id, h)
	}
	s.answers()
}

// answers takes as many as there are requests under way, and keeps the holds of grants.
func (s *hotSession) answers() {
	for n := 0; n < hotBatch; {
		<-s.Outbox().Wake()
		for _, e := range s.Outbox().TakeSome(hotBatch, math.MaxInt) {
			if g, ok := e.(session.Granted); ok {
				s.holds = append(s.holds, g.Hold)
			}
			n++
		}
	}
}

func TestAPairAllocatesLittle(t *testing.T) {
	s := openHot(t, newHot(t))
	benchtest.Allocs(t, hotBatch, mostAllocs, s.pairs)
}

// BenchmarkCores tells what a second processor adds. One and two take short turns, and the best turn of each counts:
// others that use the machine make the other turns slower. machine-two-by-one is what it adds to work that shares
// nothing, in the same run: no more can be expected of the broker.
func BenchmarkCores(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as the daemon does while its heap is small
	broker := newHot(b)
	var sessions []*hotSession
	for range 8 {
		sessions = append(sessions, openHot(b, broker))
	}
	var one, two, alone, both float64
	for b.Loop() {
		rate, _ := hotTurn(1, sessions[:4])
		one = max(one, rate)
		rate, _ = hotTurn(2, sessions)
		two = max(two, rate)
		alone, both = max(alone, countTurn(1)), max(both, countTurn(2))
	}
	b.ReportMetric(0, "ns/op") // a turn has its time
	b.ReportMetric(one, "one-pairs/s")
	b.ReportMetric(two, "two-pairs/s")
	b.ReportMetric(two/one, "two-by-one")
	b.ReportMetric(both/alone, "machine-two-by-one")
}

// countTurn has processors count in maps of their own for a moment, and returns how far they came in a second.
func countTurn(procs int) float64 {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	var counted atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range procs {
		wg.Go(func() {
			m := make(map[int]int)
			for n := 0; time.Since(began) < 20*time.Millisecond; counted.Add(1000) {
				for range 1000 {
					n++
					m[n%1000] = n
				}
			}
		})
	}
	wg.Wait()
	return float64(counted.Load()) / time.Since(began).Seconds()
}

// hotTurn has sessions make pairs for a moment, and returns how many those were, and how many per second.
func hotTurn(procs int, sessions []*hotSession) (rate float64, pairs int64) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	var batches atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for _, s := range sessions {
		wg.Go(func() {
			for time.Since(began) < 20*time.Millisecond {
				s.pairs()
				batches.Add(1)
			}
		})
	}
	wg.Wait()
	pairs = batches.Load() * hotBatch
	return float64(pairs) / time.Since(began).Seconds(), pairs
}
