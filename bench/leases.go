package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/client"
)

// Leases are taken by so many sessions, each with so many requests under way.
const (
	takingSessions = 100
	inFlight       = 64
)

// share is how many of some leases each session takes.
func share(leases int) int { return (leases + takingSessions - 1) / takingSessions }

// taking takes leases and keeps them.
type taking struct {
	clients []*client.Client
	total   int
	step    int // after how many there is a row in the table
	taken   atomic.Int64
	refused atomic.Int64
	steps   chan int // has each multiple of step when it is reached

	mu      sync.Mutex // guards the fields below
	locks   []*client.Lock
	refusal error // one of them
}

// scaleLeases takes leases, holds them, and prints what that costs.
func scaleLeases(ctx context.Context, e env, p scalePlan) error {
	t := &taking{total: share(p.leases) * takingSessions}
	t.step = max(t.total/10, 1)
	t.steps = make(chan int, t.total/t.step)
	defer t.close()
	for range takingSessions {
		c, err := client.Dial(e.lockd[0].addr, client.WithName("bench"))
		if err != nil {
			return err
		}
		t.clients = append(t.clients, c)
	}
	if err := t.measure(ctx, e); err != nil {
		return err
	}
	h, err := holdFor(ctx, e, p.hold)
	if err != nil {
		return err
	}
	fmt.Printf("\nHolding %s auto leases of %d sessions\n\n", whole(float64(t.total)), takingSessions)
	out := newTable("what", "value")
	h.rows(out)
	out.add("lost, say the clients", whole(float64(t.lost())))
	out.add("lockd RSS for each lease", whole(float64(h.after.rss)/float64(t.total))+" B")
	out.print()
	return nil
}

// measure takes all leases and prints how fast that went.
func (t *taking) measure(ctx context.Context, e env) error {
	last, err := e.read()
	if err != nil {
		return err
	}
	out := newTable("leases held", "taken/s", "refused so far", "lockd cores", "Redis cores", "client cores", "lockd RSS",
		"Redis RSS")
	var wg sync.WaitGroup
	for i, c := range t.clients {
		t.start(ctx, &wg, c, fmt.Sprintf("scale:%d:", i))
	}
	go func() { wg.Wait(); close(t.steps) }()
	for n := range t.steps {
		r, err := e.read()
		if err != nil {
			return err
		}
		redis, lockd, cl := r.cores(last)
		out.add(whole(float64(n)), whole(float64(t.step)/r.at.Sub(last.at).Seconds()), whole(float64(t.refused.Load())),
			lockd, redis, cl, mib(r.rss), mib(r.redis))
		fmt.Fprintf(os.Stderr, "%d leases are held\n", n)
		last = r
	}
	fmt.Printf("\nTaking auto leases: %d sessions, %d requests under way in each\n\n", takingSessions, inFlight)
	out.print()
	if t.refusal != nil {
		fmt.Printf("\none of the refusals: %v\n", t.refusal)
	}
	return context.Cause(ctx)
}

// start has a session take its share.
func (t *taking) start(ctx context.Context, wg *sync.WaitGroup, c *client.Client, prefix string) {
	var next atomic.Int64
	for range inFlight {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(t.total/takingSessions) && ctx.Err() == nil; i = next.Add(1) {
				t.take(ctx, c, fmt.Sprint(prefix, i))
			}
		})
	}
}

// take takes one lease, again if it is refused.
func (t *taking) take(ctx context.Context, c *client.Client, name string) {
	for ctx.Err() == nil {
		l, err := c.Lock(ctx, name)
		if err == nil {
			t.keep(l)
			return
		}
		t.refused.Add(1)
		t.mu.Lock()
		t.refusal = err
		t.mu.Unlock()
		select {
		case <-time.After(time.Second): // as many at once would be refused again
		case <-ctx.Done():
		}
	}
}

func (t *taking) keep(l *client.Lock) {
	t.mu.Lock()
	t.locks = append(t.locks, l)
	t.mu.Unlock()
	if n := int(t.taken.Add(1)); n%t.step == 0 {
		t.steps <- n
	}
}

// lost is how many of the leases are not held any more.
func (t *taking) lost() int {
	n := 0
	for _, l := range t.locks {
		if l.Err() != nil {
			n++
		}
	}
	return n
}

// close releases nothing that matters: the server is killed as well.
func (t *taking) close() {
	var wg sync.WaitGroup
	for _, c := range t.clients {
		wg.Go(func() { _ = c.Close() })
	}
	wg.Wait()
}
