package conformance

import (
	"context"
	"fmt"
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
	// settled bounds how long after the last wait something of one may be left. It is less than the time for which lockd
	// keeps the place of a fair waiter that has gone, and far less than the leases.
	settled = 4 * time.Second
)

// ways are those of each language to wait, as its driver counts them.
var ways = map[string][]string{"go": {"context"}, "python": {"task", "thread"}, "java": {"thread", "future"}}

// A wait that is interrupted, cancelled, or timed out, also at the moment at which it is granted, leaves nothing: neither
// a hold nor a place in any queue is in Redis beside those of who holds the lock, and it is free when that one is gone.
func TestWaitsThatEndLeaveNothing(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for _, sdk := range sdks {
		for way, what := range ways[sdk.name] {
			t.Run(sdk.name+" "+what, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				p := newPlay(t, w, &scenario{})
				c := &crowd{t: t, world: w, play: p, way: way, driver: startDriver(t, language{command: sdk.command(t)})}
				c.driver.enter(p)
				c.run()
			})
		}
	}
}

// crowd has waits end by a driver.
type crowd struct {
	t      *testing.T
	world  *world
	play   *play
	driver *driver
	way    int
	left   atomic.Int64 // how many waits are still to end
	holds  atomic.Int64 // names of holds

	mu    sync.Mutex     // guards the field below
	ended map[string]int // by how; "" = granted
}

// queue is what a crowd waits for.
type queue struct {
	name    string
	kind    client.Kind
	opts    []client.LockOption
	fields  map[string]any // of a request for it
	locks   int            // of a request
	holders []*client.Client

	mu     sync.Mutex    // guards the field below
	handed chan struct{} // closed when it is handed around next
}

func (c *crowd) run() {
	c.left.Store(ends)
	c.ended = make(map[string]int)
	var holders []*client.Client
	for i, r := range c.world.replicas {
		holders = append(holders, r.Dial(c.t))
		c.must(map[string]any{
			"op": "connect", "client": c.client(i), "name": "crowd", "addrs": []string{r.Addr},
			"answer_timeout": harness.Patience.Milliseconds(),
		})
	}
	queues := c.queues(holders)
	before := c.granted()
	var crowds, handing sync.WaitGroup
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	var turns atomic.Int64
	for _, q := range queues {
		handing.Go(func() { q.handAround(ctx, c.t, &turns) })
		for i := range waiters {
			crowds.Go(func() { c.wait(q, i%len(holders)) })
		}
	}
	crowds.Wait()
	stop()
	handing.Wait()
	late := c.granted() - before - int(turns.Load()) - c.ended[""]
	c.t.Logf("%d turns of the holders; waits ended: %v; %d of them were granted at that moment", turns.Load(), c.ended, late)
	for _, how := range []string{"", "CANCELLED", "TIMED_OUT"} {
		if c.ended[how] < ends/10 {
			c.t.Errorf("%d waits ended by %q: the others hardly met it", c.ended[how], how)
		}
	}
	if late == 0 {
		c.t.Error("no wait ended at the moment of its grant")
	}
	for _, q := range queues {
		c.look(q)
	}
	if err := c.play.unexpected(); err != nil {
		c.t.Error(err)
	}
}

// queues are locks of each kind, and one that is asked for together with others.
func (c *crowd) queues(holders []*client.Client) (all []*queue) {
	of := func(kind client.Kind, opts ...client.LockOption) *queue {
		name := c.play.prefixed(kind.String())
		fields := map[string]any{"op": "lock", "name": name, "kind": kind.String()}
		if kind == client.Semaphore {
			fields["permits"], fields["limit"] = 1, 1
		} else {
			opts = append(opts, client.As(kind))
		}
		return &queue{name: name, kind: kind, opts: opts, fields: fields, locks: 1, holders: holders, handed: make(chan struct{})}
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
func (q *queue) handAround(ctx context.Context, t *testing.T, turns *atomic.Int64) {
	for i := 0; ctx.Err() == nil; i++ {
		l := q.hold(t, i)
		if l == nil {
			return
		}
		turns.Add(1)
		time.Sleep(upTo(4 * time.Millisecond))
		q.mu.Lock()
		close(q.handed)
		q.handed = make(chan struct{})
		q.mu.Unlock()
		if err := l.Unlock(t.Context()); err != nil {
			t.Errorf("%s: the holder: %v", q.name, err)
			return
		}
		time.Sleep(upTo(2 * time.Millisecond))
	}
}

// hold takes the name by one of the holders. It is nil if that does not succeed: then something is in the way.
func (q *queue) hold(t *testing.T, by int) *client.Lock {
	l, err := q.holders[by%len(q.holders)].Lock(t.Context(), q.name, append(q.opts, client.Wait(harness.Patience))...)
	if err != nil {
		t.Errorf("%s: the holder: %v", q.name, err)
	}
	return l
}

// wait waits for the name, again and again, until enough waits have ended.
func (c *crowd) wait(q *queue, at int) {
	for i := 0; c.left.Load() > 0 && !c.t.Failed(); i++ {
		how, err := c.waitOnce(q, at)
		if err != nil {
			c.t.Errorf("%s: %v", q.name, err)
			return
		}
		c.mu.Lock()
		c.ended[how]++
		c.mu.Unlock()
		if how != "" {
			c.left.Add(-1)
		}
	}
}

// waitOnce waits, and says what ended that: its time, a cancel at any moment or when the lock is handed around, or the
// grant, which is released.
func (c *crowd) waitOnce(q *queue, at int) (how string, err error) {
	fields := map[string]any{"client": c.client(at), "way": c.way}
	for k, v := range q.fields {
		fields[k] = v
	}
	hold := c.play.own(strconv.FormatInt(c.holds.Add(1), 10))
	holds := []string{hold, hold + "b"}
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
	_, answer, err := c.send(map[string]any{"op": "unlock", "hold": hold})
	if err != nil {
		return err
	}
	h, err := c.await(answer)
	if err == nil && h.failed {
		err = fmt.Errorf("unlock was answered %s", h.text)
	}
	return err
}
