package watchdog

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// crew has leases of one client.
type crew struct {
	mu    sync.Mutex // guards all of its leases
	ttl   time.Duration
	heard time.Time
	like  lock.Renewal // of each
	note  lock.Note
	asks  atomic.Int64 // how often its leases were asked what they need
}

// take has a client take some leases.
func (c *crew) take(w *Watchdog[*fake], n int) (ls []*fake) {
	for range n {
		l := &fake{crew: c, until: time.Now().Add(c.ttl)}
		ls = append(ls, l)
		w.Keep(l, l.until)
	}
	return ls
}

// newCrew is a client that was just heard.
func newCrew(ttl time.Duration) *crew { return &crew{ttl: ttl, heard: time.Now()} }

// hearOften has the client heard some times, an interval apart, a little before renewals are due.
func (c *crew) hearOften(w *Watchdog[*fake], times int) {
	for range times {
		time.Sleep(c.ttl/3 - 10*time.Millisecond)
		c.hear(w)
	}
	synctest.Wait()
}

// lost counts the lost leases.
func lost(ls []*fake) (n int) {
	synctest.Wait()
	for _, l := range ls {
		if _, at := l.seen(); !at.IsZero() {
			n++
		}
	}
	return n
}

// fake is a lease.
type fake struct {
	*crew
	own     lock.Note
	alone   bool
	until   time.Time
	asked   func() // while what it needs is found out
	told    func() // while it hears that it is lost
	renewed []time.Time
	lost    time.Time
}

func (f *fake) Note() *lock.Note { return &f.own }

func (f *fake) Group() *lock.Note {
	if f.alone {
		return nil
	}
	return &f.note
}

func (f *fake) Weight() int             { return lock.Weight(f.like.Kind, f.like.Permits) }
func (f *fake) Interval() time.Duration { return f.ttl / 3 }
func (f *fake) Name() string            { return "fake" }
func (f *fake) Reduced(time.Time) bool  { return false }

func (f *fake) Renewals(now time.Time, ls []*fake, rs []lock.Renewal, until []time.Time) {
	for i, l := range ls {
		l.asks.Add(1)
		if l.asked != nil {
			l.asked()
		}
		l.mu.Lock()
		rs[i] = l.like
		rs[i].TTL = l.heard.Add(l.ttl).Sub(now)
		until[i] = l.until
		l.mu.Unlock()
	}
}

func (f *fake) Renewed(start time.Time, ls []*fake, rs []lock.Renewal, until []time.Time) {
	for i, l := range ls {
		l.mu.Lock()
		l.renewed = append(l.renewed, start)
		if !l.alone {
			l.until = start.Add(rs[i].TTL)
		}
		until[i] = l.until
		l.mu.Unlock()
	}
}

func (f *fake) Lose(lock.LostReason) {
	if f.told != nil {
		f.told()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = time.Now()
}

// seen is when it was renewed, and when it was lost.
func (f *fake) seen() (renewed []time.Time, lost time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.renewed), f.lost
}

// renewer is a store that renews everything.
type renewer struct{ lock.Holds }

func (renewer) Renew(_ context.Context, rs []lock.Renewal, done func(int, error)) {
	for i := range rs {
		done(i, nil)
	}
}

// slow is a store that takes its time for each call, and knows what was asked of it.
type slow struct {
	lock.Holds
	each time.Duration

	mu          sync.Mutex // guards the fields below
	err         error      // of each renewal
	calls       []call
	under, most int // calls that are under way, now and at most
}

type call struct {
	at time.Time
	n  int // what it costs
}

func (s *slow) Renew(_ context.Context, rs []lock.Renewal, done func(int, error)) {
	cost := 0
	for _, r := range rs {
		cost += lock.Weight(r.Kind, r.Permits)
	}
	s.mu.Lock()
	s.calls = append(s.calls, call{time.Now(), cost})
	s.under++
	s.most = max(s.most, s.under)
	err := s.err
	s.mu.Unlock()
	time.Sleep(s.each)
	s.mu.Lock()
	s.under--
	s.mu.Unlock()
	for i := range rs {
		done(i, err)
	}
}

// fail has renewals fail from now on, or be done, and returns the calls until now.
func (s *slow) fail(err error) []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls, s.err = nil, err
	return calls
}

func newWatchdog(t testing.TB) *Watchdog[*fake] { return watching(t, renewer{}) }

// watching is a watchdog on a store.
func watching(t testing.TB, s lock.Holds) *Watchdog[*fake] {
	w := New[*fake](s, zap.NewNop(), prometheus.NewRegistry())
	t.Cleanup(w.Close)
	return w
}

// left says what is in the shards, nothing if they are empty.
func (w *Watchdog[L]) left() (left string) {
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		ready := len(s.ready[grouped]) + len(s.ready[alone])
		if s.entries.live()+s.rounds.Len()+s.near.Len()+ready != 0 {
			left += fmt.Sprintf("shard %d: %d entries, %d rounds, %d near, %d ready; ", i, s.entries.live(), s.rounds.Len(),
				s.near.Len(), ready)
		}
		s.mu.Unlock()
	}
	return left
}

func (c *crew) hear(w *Watchdog[*fake]) {
	c.mu.Lock()
	c.heard = time.Now()
	c.mu.Unlock()
	w.Heard(&c.note)
}
