package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	// ends is how many waits of each way to wait end without the lock.
	ends = 1000
	// waiters is how many wait for a name at a time, while its holder hands it around.
	waiters = 6
	// inVain is how often each of them waits while nothing is handed around.
	inVain = 5
	// soon bounds how long a holder waits behind the crowd.
	soon = 30 * time.Second
	// settled bounds how long after the last wait something of one may be left. It is less than the time for which lockd
	// keeps the place of a fair waiter that has gone, and far less than the leases.
	settled = 4 * time.Second
)

// ways are those of each language to wait, as its driver counts them.
var ways = map[string][]string{"go": {"context"}, "python": {"task", "thread"}, "java": {"thread", "future"}}

// A wait that is interrupted, cancelled, or timed out, also at the moment at which it is granted, leaves nothing:
// neither a hold nor a place in any queue is in Redis beside those of who holds the lock, and it is free when that one
// is gone. Other tests do not run beside it, as it takes all processors for a minute.
func TestWaitsThatEndLeaveNothing(t *testing.T) {
	tier.Long(t)
	for _, sdk := range sdks {
		for way, what := range ways[sdk.name] {
			t.Run(sdk.name+" "+what, func(t *testing.T) {
				t.Parallel()
				c := newCrowd(t, way, sdk.command(t))
				if err := c.run(); err != nil {
					t.Error(err)
				}
				t.Logf("%d turns of the holders; waits ended: %v; %d of them were granted at that moment", c.turns.Load(),
					c.ended, c.late)
				if c.late == 0 {
					t.Error("no wait ended at the moment of its grant")
				}
			})
		}
	}
}

// crowd has waits end by a driver.
type crowd struct {
	t       *testing.T
	world   *world
	play    *play
	driver  *driver
	way     int
	holders []*client.Client // of each replica
	turns   atomic.Int64     // of the holders
	holds   atomic.Int64     // names of holds
	late    int              // how many requests were granted that had ended

	mu    sync.Mutex     // guards the fields below
	ended map[string]int // waits, by how; "" = granted
	fault error          // the first one
}

// queue is what a crowd waits for.
type queue struct {
	name   string
	kind   client.Kind
	opts   []client.LockOption
	fields map[string]any // of a request for it
	locks  int            // of a request

	mu     sync.Mutex    // guards the field below
	handed chan struct{} // closed when it is handed around next
}

func newCrowd(t *testing.T, way int, command []string) *crowd {
	t.Helper()
	w := newWorld(t)
	c := &crowd{t: t, world: w, play: newPlay(t, w, &scenario{}), way: way, ended: make(map[string]int)}
	c.driver = startDriver(t, language{command: command})
	c.driver.enter(c.play)
	for _, r := range w.replicas {
		c.holders = append(c.holders, r.Dial(t))
	}
	return c
}

// run has enough waits end, and says what is wrong, or left.
func (c *crowd) run() error {
	for i, r := range c.world.replicas {
		_, err := c.ask(map[string]any{
			"op": "connect", "client": c.client(i), "name": "crowd", "addrs": []string{r.Addr},
			"answer_timeout": harness.Patience.Milliseconds(),
		})
		if err != nil {
			return err
		}
	}
	queues := c.queues()
	before := c.granted()
	var crowds, handing sync.WaitGroup
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	for _, q := range queues {
		handing.Go(func() { c.wrong(c.handAround(ctx, q)) })
		for i := range waiters {
			crowds.Go(func() { c.wrong(c.wait(q, i%len(c.holders))) })
		}
	}
	crowds.Wait()
	stop()
	handing.Wait()
	for _, q := range queues {
		close(q.handed) // who would wait for that does not wait long
	}
	c.late = c.granted() - before - int(c.turns.Load()) - c.ended[""]
	for _, q := range queues {
		if c.fault == nil {
			c.wrong(c.left(q))
		}
	}
	return errors.Join(c.fault, c.play.unexpected())
}

// wrong notes an error. Nobody waits on after that.
func (c *crowd) wrong(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fault == nil {
		c.fault = err
	}
}

// queues are locks of each kind, and one that is asked for together with others.
func (c *crowd) queues() (all []*queue) {
	of := func(kind client.Kind, opts ...client.LockOption) *queue {
		name := c.play.prefixed(kind.String())
		fields := map[string]any{"op": "lock", "name": name, "kind": kind.String()}
		if kind == client.Semaphore {
			fields["permits"], fields["limit"] = 1, 1
		} else {
			opts = append(opts, client.As(kind))
		}
		return &queue{name: name, kind: kind, opts: opts, fields: fields, locks: 1, handed: make(chan struct{})}
	}
	for _, kind := range []client.Kind{client.Exclusive, client.Fair, client.Write} {
		all = append(all, of(kind))
	}
	all = append(all, of(client.Semaphore, client.Permits(1, 1)))
	several := of(client.Exclusive)
	several.locks = 2
	several.name = c.play.prefixed("several")
	several.fields = map[string]any{"op": "lock_all", "items": []any{
		map[string]any{"name": several.name + "-free", "kind": "exclusive"},
		map[string]any{"name": several.name, "kind": "exclusive"},
	}}
	return append(all, several)
}

// handAround has the name be held for moments, at one replica and the other, and tells when that ends.
func (c *crowd) handAround(ctx context.Context, q *queue) error {
	for i := 0; ctx.Err() == nil; i++ {
		l, err := c.hold(q, i)
		if err != nil {
			return err
		}
		c.turns.Add(1)
		time.Sleep(upTo(4 * time.Millisecond))
		q.mu.Lock()
		close(q.handed)
		q.handed = make(chan struct{})
		q.mu.Unlock()
		if err := l.Unlock(c.t.Context()); err != nil {
			return err
		}
		time.Sleep(upTo(2 * time.Millisecond))
	}
	return nil
}

// hold takes the name by one of the holders. It does not take long, unless something is in the way.
func (c *crowd) hold(q *queue, by int) (*client.Lock, error) {
	l, err := c.holders[by%len(c.holders)].Lock(c.t.Context(), q.name, append(q.opts, client.Wait(soon))...)
	if err != nil {
		err = fmt.Errorf("the holder: %w: something is left: %v", err, c.inRedis(q.name))
	}
	return l, err
}

// wait waits for the name, again and again, until enough waits have ended.
func (c *crowd) wait(q *queue, at int) error {
	for c.goesOn() {
		how, err := c.waitOnce(q, at)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		c.mu.Lock()
		c.ended[how]++
		c.mu.Unlock()
	}
	return nil
}

// goesOn says whether more waits are to end: enough of them, and in each way.
func (c *crowd) goesOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	in, cancelled := c.ended["TIMED_OUT"], c.ended["CANCELLED"]
	enough := in+cancelled >= ends && min(in, cancelled, c.ended[""]) >= ends/10
	return c.fault == nil && !enough
}

// waitOnce waits, and says what ended that: its time, a cancel at any moment or when the lock is handed around, or the
// grant, which is released.
func (c *crowd) waitOnce(q *queue, at int) (how string, err error) {
	fields := maps.Clone(q.fields)
	fields["client"], fields["way"] = c.client(at), c.way
	hold := c.play.own(strconv.FormatInt(c.holds.Add(1), 10))
	holds := []string{hold, hold + "b"}
	if q.kind == client.Write && rand.IntN(2) == 0 {
		fields["kind"] = client.Read.String()
	}
	fields["hold"], fields["holds"] = hold, holds
	q.mu.Lock()
	handed := q.handed
	q.mu.Unlock()
	var cancelled <-chan time.Time
	switch rand.IntN(3) {
	case 0:
		fields["wait"], handed = patience().Milliseconds(), nil
	case 1:
		cancelled, handed = time.After(patience()), nil
	default:
		cancelled = time.After(time.Second) // if nobody hands it around any more
	}
	id, answer, err := c.send(fields)
	if err != nil {
		return "", err
	}
	h, err := c.cancelAt(id, answer, cancelled, handed)
	if err != nil {
		return "", err
	}
	if h.failed {
		how, _ = h.fields["error"].(string)
		if how != "CANCELLED" && how != "TIMED_OUT" {
			err = fmt.Errorf("a wait was answered %s", h.text)
		}
		return how, err
	}
	for _, hold := range holds[:q.locks] {
		if err := c.unlock(hold); err != nil {
			return "", err
		}
	}
	return "", nil
}

// cancelAt cancels a wait at a time, or about when the lock is handed around, unless it ends before, and returns its
// answer.
func (c *crowd) cancelAt(id int64, answer <-chan *heard, at <-chan time.Time, handed <-chan struct{}) (*heard, error) {
	select {
	case h := <-answer:
		return h, nil
	case <-handed:
		time.Sleep(upTo(time.Millisecond))
	case <-at:
	case <-time.After(harness.Patience): // it should have timed out
	}
	if _, _, err := c.send(map[string]any{"op": "cancel", "target": id}); err != nil {
		return nil, err
	}
	return c.await(answer)
}

// patience is any time from 1 ms on. Short ones are as frequent as long ones.
func patience() time.Duration { return time.Millisecond + upTo(time.Millisecond<<rand.IntN(8)) }

func (c *crowd) unlock(hold string) error {
	_, err := c.ask(map[string]any{"op": "unlock", "hold": hold})
	return err
}
