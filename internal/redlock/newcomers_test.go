package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// newcomer is a node that can be marked as new. The mark is lost with the data.
type newcomer struct {
	*node
	marked time.Time // as it has been since then, if it has not lost its data since
}

func (n newcomer) Marked() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost && n.since.Equal(n.marked)
}

func (n newcomer) Found(ctx context.Context) error {
	_, err := meet(ctx, n.node, "found", func() (int, error) { return 0, nil })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = n.lost && err != nil
	return err
}

// Once a probe says that members that are new are there, they vote, also if some answer later than others. If one does
// not answer, nobody knows whether it is new, and the others are there without it.
func TestMembersThatAreNewVoteAfterTheFirstProbe(t *testing.T) {
	for name, test := range map[string]struct {
		last  fate
		votes bool
	}{
		"one is late": {fate{after: 100 * time.Millisecond}, true},
		"one is down": {silent, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t}
				var all []lock.Store
				for range 3 {
					n := newNode()
					n.since, n.lost = time.Now(), true
					n.lag(20 * time.Millisecond)
					w.nodes, all = append(w.nodes, n), append(all, newcomer{n, n.since})
				}
				w.nodes[2].becomes(test.last)
				s, err := New(Config{Quarantine: time.Minute}, all, zap.NewNop(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Probe(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Acquire(t.Context(), claimOf("n", "o")); (err == nil) != test.votes {
					t.Errorf("got %v, want that it is granted: %t", err, test.votes)
				}
				time.Sleep(lastCalls)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Members that all come back without their data at the same time are not new: somebody may hold what they forgot. Who
// met them before knows that, and who starts at that moment finds no sign that they are new.
func TestMembersThatWereEmptiedAreNotNew(t *testing.T) {
	for name, again := range map[string]bool{"to a replica that met them": false, "to one that starts": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{T: t}
				var all []lock.Store
				for range 3 {
					n := newNode()
					n.since, n.lost = time.Now(), true
					w.nodes, all = append(w.nodes, n), append(all, newcomer{n, n.since})
				}
				replica := func() *Store {
					s, err := New(Config{Quarantine: time.Minute}, all, zap.NewNop(), nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						if err := s.Close(); err != nil {
							t.Error(err)
						}
					})
					return s
				}
				probe := func(s *Store) {
					if _, err := s.Probe(t.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				s := replica()
				probe(s)
				if _, err := s.Acquire(t.Context(), claimOf("n", "o")); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(time.Millisecond)
				for _, n := range w.nodes {
					n.restart()
				}
				if again {
					s = replica()
				}
				probe(s)
				if _, err := s.Acquire(t.Context(), claimOf("n", "other")); err == nil {
					t.Error("it was granted to another, and the first one holds it")
				}
				time.Sleep(time.Minute + lastCalls)
				if _, err := s.Acquire(t.Context(), claimOf("n", "other")); err != nil {
					t.Errorf("after the quarantine: %v", err)
				}
				time.Sleep(lastCalls)
			})
		})
	}
}
