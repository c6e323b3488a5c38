package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// client is what the driver calls its client of a replica.
func (c *crowd) client(replica int) string { return c.play.own(fmt.Sprint("client", replica)) }

// send has the driver do something, and returns where the answer comes.
func (c *crowd) send(fields map[string]any) (id int64, answer <-chan *heard, err error) {
	done := make(chan *heard, 1)
	command := &command{play: c.play, key: fmt.Sprint(fields["op"]), done: done}
	err = c.driver.send(command, fields)
	return command.id, done, err
}

// await waits for an answer.
func (c *crowd) await(answer <-chan *heard) (*heard, error) {
	select {
	case h := <-answer:
		return h, nil
	case <-time.After(harness.Patience):
		return nil, errors.Join(errors.New("there is no answer"), c.driver.trouble())
	}
}

// ask has the driver do something that succeeds.
func (c *crowd) ask(fields map[string]any) (*heard, error) {
	_, answer, err := c.send(fields)
	if err != nil {
		return nil, err
	}
	h, err := c.await(answer)
	if err == nil && h.failed {
		err = fmt.Errorf("%v is answered %s", fields, h.text)
	}
	return h, err
}

// granted is how many requests the replicas have granted.
func (c *crowd) granted() (n int) {
	c.t.Helper()
	for _, r := range c.world.replicas {
		for _, kind := range []client.Kind{client.Exclusive, client.Fair, client.Read, client.Write, client.Semaphore} {
			n += int(r.Metric(fmt.Sprintf("lockd_acquire_total{kind=%q,result=\"granted\"}", kind)))
		}
	}
	return n
}

// left says what the crowd has left of a queue: while it is held once more and others wait in vain, and after that.
func (c *crowd) left(q *queue) error {
	l, err := c.hold(q, 0)
	if err != nil {
		return err
	}
	if err := c.waitInVain(q); err != nil {
		return fmt.Errorf("%s: %w", q.name, err)
	}
	for end := time.Now().Add(settled); ; time.Sleep(often) {
		if err = c.leftBeside(q); err == nil || time.Now().After(end) {
			break
		}
	}
	err = errors.Join(err, l.Unlock(c.t.Context()))
	for _, holder := range c.holders { // at once, at each replica
		l, again := holder.TryLock(c.t.Context(), q.name, q.opts...)
		if again == nil {
			again = l.Unlock(c.t.Context())
		}
		err = errors.Join(err, again)
	}
	if err != nil {
		return fmt.Errorf("%s: something is left: %w", q.name, err)
	}
	return nil
}

// waitInVain has waits end for a name that is held all the while.
func (c *crowd) waitInVain(q *queue) error {
	var all sync.WaitGroup
	errs := make([]error, waiters)
	for i := range waiters {
		all.Go(func() {
			for n := 0; n < inVain && errs[i] == nil; n++ {
				var how string
				if how, errs[i] = c.waitOnce(q, i%len(c.holders)); how == "" && errs[i] == nil {
					errs[i] = errors.New("it was granted though somebody has it")
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// leftBeside says what there is of a queue besides its one holder.
func (c *crowd) leftBeside(q *queue) error {
	var errs []error
	for i, holder := range c.holders {
		info, err := holder.Look(c.t.Context(), q.name)
		if errs = append(errs, err); info.Waiters+info.Queued > 0 {
			errs = append(errs, fmt.Errorf("%d wait at replica %d, %d in all", info.Waiters, i, info.Queued))
		}
		h, err := c.ask(map[string]any{"op": "holds", "client": c.client(i), "prefix": q.name})
		if err != nil {
			return err
		}
		if names, _ := h.fields["names"].([]any); len(names) > 0 {
			errs = append(errs, fmt.Errorf("the crowd holds %v", names))
		}
	}
	for _, found := range c.inRedis(q.name) {
		switch {
		case strings.HasPrefix(found, "redisson_lock_token:"): // the last fence
		case strings.HasPrefix(found, "lockd_lock_suspect:") && strings.HasSuffix(found, " 0"): // when it was looked at
		case slices.Contains(q.ofHolder(), found):
		default:
			errs = append(errs, errors.New("in Redis there is "+found))
		}
	}
	return errors.Join(errs...)
}

// ofHolder is what one holder has in Redis, as inRedis tells it.
func (q *queue) ofHolder() []string {
	switch q.kind {
	case client.Semaphore:
		return []string{q.name + " 0", "{" + q.name + "}:timeout 1"}
	case client.Write:
		return []string{q.name + " 1", "the writer's fence"}
	default:
		return []string{q.name + " 1"}
	}
}

// inRedis is each key of a name, and how much it has: owners, waiters, or permits that are free.
func (c *crowd) inRedis(name string) (all []string) {
	c.t.Helper()
	ctx, rc := context.WithoutCancel(c.t.Context()), c.world.redis.Client()
	keys, err := rc.Keys(ctx, "*"+name+"*").Result()
	harness.Must(c.t, err)
	for _, key := range keys {
		has := "nothing"
		switch rc.Type(ctx, key).Val() {
		case "string":
			has = rc.Get(ctx, key).Val()
		case "hash":
			owners := slices.DeleteFunc(rc.HKeys(ctx, key).Val(), func(f string) bool { return f == "mode" || f == "" })
			has = fmt.Sprint(len(owners))
		case "list":
			has = fmt.Sprint(rc.LLen(ctx, key).Val())
		case "zset":
			has = fmt.Sprint(rc.ZCard(ctx, key).Val())
		case "none":
			continue // it has ended
		}
		if strings.HasSuffix(key, ":write:lockd_fence") {
			all = append(all, "the writer's fence") // the key has its owner
		} else {
			all = append(all, key+" "+has)
		}
	}
	return all
}

func upTo(d time.Duration) time.Duration { return rand.N(d) } //nolint:gosec // no secret
