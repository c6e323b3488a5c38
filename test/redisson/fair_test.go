package redisson

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestFairWaitersOfBothSidesAreServedInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, holder := range []string{"lockd", "Redisson"} {
		t.Run("after "+holder, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, long)
			boss := s.redisson.worker("boss")
			free := func() { boss.ask("release", "fair", "line") }
			if holder == "lockd" {
				l := s.lock(s.lockd.Dial(s.t), fair, "line")
				free = func() { s.unlock(l) }
			} else {
				boss.ask("acquire", "fair", "line", 0)
			}
			var cs []*client.Client
			for range 4 {
				cs = append(cs, s.lockd.Dial(s.t))
				s.unlock(s.lock(cs[len(cs)-1], fair, "warm"))
			}
			q := &line{s: s}
			for i := range 8 {
				if i%2 == 0 {
					q.joinLockd(i, cs[i/2])
				} else {
					q.joinRedisson(i)
				}
				s.queued("line", int64(i)+1)
			}
			if st := s.get("line"); st.GetQueued() != 8 {
				t.Errorf("lockd counts %d in the queue, want 8", st.GetQueued())
			}
			free()
			q.wg.Wait()
			if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(q.served, want) {
				t.Errorf("served in the order %v, want %v", q.served, want)
			}
		})
	}
}

// line is some fair waiters, in the order of their arrival.
type line struct {
	s  *stage
	wg sync.WaitGroup

	mu     sync.Mutex // guards the field below
	served []int
}

// joinLockd has a client of lockd wait, have its turn, and leave.
func (q *line) joinLockd(i int, c *client.Client) {
	waiter := q.s.wait(c, fair, "line")
	q.wg.Go(func() {
		g := <-waiter
		if g.err != nil {
			q.s.t.Error(g.err)
			return
		}
		q.turn(i)
		if err := g.lock.Unlock(q.s.t.Context()); err != nil {
			q.s.t.Error(err)
		}
	})
}

// joinRedisson has a thread of Redisson do the same.
func (q *line) joinRedisson(i int) {
	w := q.s.redisson.worker(i)
	c := w.tell("acquire", "fair", "line", 0)
	q.wg.Go(func() {
		<-c.done
		q.turn(i)
		<-w.tell("release", "fair", "line").done
	})
}

func (q *line) turn(i int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served = append(q.served, i)
}

// queued waits until so many are in the queue of a fair lock, as Redisson keeps it.
func (s *stage) queued(name string, n int64) {
	s.t.Helper()
	harness.Until(s.t, fmt.Sprint(n, " in the queue"), func() bool {
		got, err := s.rc.LLen(s.t.Context(), "redisson_lock_queue:{"+name+"}").Result()
		harness.Must(s.t, err)
		return got >= n
	})
}
