package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
)

// use starts all that uses locks. It ends with ctx.
func use(ctx context.Context, addrs []string) {
	many := func(n int, name string, f func(ctx context.Context, c *client.Client, i int) error) {
		for i := range n {
			go with(ctx, addrs, fmt.Sprintf("%s-%d", name, i+1), func(c *client.Client) error { return f(ctx, c, i) })
		}
	}
	many(5, "shop", orders)
	many(4, "reader", rates)
	many(1, "writer", newRates)
	many(6, "render", render)
	many(3, "report", report)
	many(2, "transfer", transfer)
	many(2, "cleaner", clean)
	go crash(ctx, addrs[0])
}

// with calls f again and again, with a client of a random replica.
func with(ctx context.Context, addrs []string, name string, f func(c *client.Client) error) {
	addrs = slices.Clone(addrs)
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	for ctx.Err() == nil {
		c, err := client.Dial(strings.Join(addrs, ","), client.WithName(name), client.WithActor(name))
		if err != nil {
			log.Print(err)
			return
		}
		for ctx.Err() == nil && err == nil {
			err = f(c)
		}
		if ctx.Err() == nil {
			log.Printf("%s: %v", name, err)
		}
		_ = c.Close() // what is left ends by itself
		pause(ctx, time.Second)
	}
}

// held works with a lock for about d.
func held(ctx context.Context, c *client.Client, name string, d time.Duration, opts ...client.LockOption) error {
	l, err := c.Lock(ctx, name, opts...)
	if errors.Is(err, client.ErrTimedOut) {
		return nil
	}
	if err != nil {
		return err
	}
	work(l.Context(), ctx, d)
	if err := l.Unlock(ctx); err != nil && !errors.Is(err, client.ErrLost) {
		return err
	}
	return nil
}

// work takes about d, and ends when the lock or ctx ends.
func work(lock, ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d/2 + rand.N(d)):
	case <-lock.Done():
	case <-ctx.Done():
	}
}

// orders is a queue: whoever came first is served first.
func orders(ctx context.Context, c *client.Client, i int) error {
	order := 40 + rand.IntN(3)
	return held(ctx, c, fmt.Sprint("orders/", order), 2*time.Second, client.As(client.Fair),
		client.Annotation(fmt.Sprintf("till %d bills order %d", i+1, order)))
}

// rates reads what many read and one writes.
func rates(ctx context.Context, c *client.Client, _ int) error {
	err := held(ctx, c, "rates", time.Second, client.As(client.Read))
	pause(ctx, rand.N(2*time.Second))
	return err
}

func newRates(ctx context.Context, c *client.Client, _ int) error {
	pause(ctx, 5*time.Second)
	return held(ctx, c, "rates", time.Second, client.As(client.Write), client.Annotation("rates of the day"))
}

// render may be done three at a time.
func render(ctx context.Context, c *client.Client, i int) error {
	err := held(ctx, c, "render", 4*time.Second, client.Permits(1, 3), client.Annotation(fmt.Sprint("video ", 1000+i)))
	pause(ctx, rand.N(time.Second))
	return err
}

// report has one leader, which resigns now and then.
func report(ctx context.Context, c *client.Client, i int) error {
	term, err := election.New(c, "leader/reports").Campaign(ctx, election.Candidate{ID: fmt.Sprint("report-", i+1)})
	if err != nil {
		return err
	}
	work(term.Context(), ctx, 20*time.Second)
	return term.Resign(context.WithoutCancel(ctx))
}

// transfer locks two accounts one after the other, each transfer in its own order: a deadlock, until one gives up.
func transfer(ctx context.Context, c *client.Client, i int) error {
	from, to := "account/17", "account/4"
	if i == 1 {
		from, to = to, from
	}
	l, err := c.Lock(ctx, from, client.Annotation("transfer to "+to))
	if err != nil {
		return err
	}
	pause(ctx, 2*time.Second)
	wait := 15*time.Second + time.Duration(i)*15*time.Second
	err = held(ctx, c, to, time.Second, client.Wait(wait), client.Annotation("transfer from "+from))
	if e := l.Unlock(ctx); e != nil && !errors.Is(e, client.ErrLost) {
		err = errors.Join(err, e)
	}
	pause(ctx, 5*time.Second)
	return err
}

// stuck is the lock of a client that dies.
const stuck = "cleanup"

// clean waits for the lock of the client that died, until its lease ends.
func clean(ctx context.Context, c *client.Client, _ int) error {
	err := held(ctx, c, stuck, 3*time.Second, client.Annotation("remove old files"))
	pause(ctx, 5*time.Second)
	return err
}

// crash has a process hold a lock and be killed.
func crash(ctx context.Context, addr string) {
	for pause(ctx, 20*time.Second) {
		victim := exec.CommandContext(ctx, os.Args[0], "-victim", addr)
		apart(victim)
		if err := victim.Start(); err != nil {
			log.Print(err)
			return
		}
		pause(ctx, 10*time.Second)
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}
}

// hold is what the victim does.
func hold(ctx context.Context, addr string) error {
	c, err := client.Dial(addr, client.WithName("victim"), client.WithSessionTTL(15*time.Second))
	if err != nil {
		return err
	}
	return held(ctx, c, stuck, time.Hour, client.Annotation("removes old files, and will die"))
}
