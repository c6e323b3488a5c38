package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockd-io/lockd/client"
)

// fields are those of an answer.
type fields = map[string]any

// op carries a command out.
type op func(*driver, context.Context, *command) (fields, error)

// ops are the commands. What is not here is not supported.
var ops = map[string]op{
	"connect":      (*driver).connect,
	"with_ttl":     (*driver).withTTL,
	"close":        (*driver).closeClient,
	"lock":         (*driver).lockOne,
	"lock_all":     (*driver).lockAll,
	"cancel":       (*driver).cancel,
	"unlock":       onHold(func(ctx context.Context, l *client.Lock, _ *command) error { return l.Unlock(ctx) }),
	"extend":       onLease((*client.Lock).Extend),
	"shorten":      onLease((*client.Lock).Shorten),
	"make_fixed":   onLease((*client.Lock).MakeFixed),
	"make_auto":    onHold(func(ctx context.Context, l *client.Lock, _ *command) error { return l.MakeAuto(ctx) }),
	"keep_permits": (*driver).keepPermits,
	"state":        (*driver).state,
	"look":         (*driver).look,
	"holds":        (*driver).listHolds,
	"set_limit":    (*driver).setLimit,
	"watch":        (*driver).watch,
	"unwatch":      (*driver).unwatch,
	"campaign":     (*driver).campaign,
	"resign":       (*driver).resign,
	"observe":      (*driver).observe,
}

// errUnsupported: this driver, or this SDK, cannot do that.
var errUnsupported = errors.New("this driver cannot do that")

func (d *driver) unsupported(context.Context, *command) (fields, error) { return nil, errUnsupported }

func (d *driver) connect(_ context.Context, c *command) (fields, error) {
	opts := []client.Option{client.WithName(c.Name), client.WithOnStatus(func(s client.Status) {
		d.mu.Lock()
		of := cmp.Or(d.ofTTL[c.Client+s.TTL.String()], c.Client)
		d.mu.Unlock()
		d.say(fields{"event": "status", "client": of, "status": strings.ToUpper(string(s.State))})
	})}
	if c.SessionTTL != nil {
		opts = append(opts, client.WithSessionTTL(ms(c.SessionTTL)))
	}
	if c.AnswerTimeout != nil {
		opts = append(opts, client.WithAnswerTimeout(ms(c.AnswerTimeout)))
	}
	if c.Actor != "" {
		opts = append(opts, client.WithActor(c.Actor))
	}
	if c.FailOnDeadlock {
		opts = append(opts, client.WithFailOnDeadlock())
	}
	if c.ReleaseOnDisconnect {
		opts = append(opts, client.WithReleaseOnDisconnect())
	}
	made, err := client.Dial(strings.Join(c.Addrs, ","), append(opts, client.WithTokenFile(c.TokenFile))...)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[c.Client] = made
	return fields{}, nil
}

func (d *driver) withTTL(_ context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		made, err := cl.WithTTL(ms(c.SessionTTL))
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ofTTL[c.Client+ms(c.SessionTTL).String()] = c.Other
		d.clients[c.Other] = made
		return fields{}, nil
	})
}

func (d *driver) closeClient(_ context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) { return fields{}, cl.Close() })
}

func (d *driver) lockOne(ctx context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		opts, err := d.lockOptions(c)
		if err != nil {
			return nil, err
		}
		do := cl.Lock
		if c.Wait != nil && *c.Wait == 0 {
			do = cl.TryLock
		}
		l, err := do(ctx, c.Name, opts...)
		if err != nil {
			return nil, err
		}
		d.keep(c.Hold, l)
		return fields{"fence": l.Fence()}, nil
	})
}

func (d *driver) lockAll(ctx context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		opts, err := d.lockOptions(c)
		if err != nil {
			return nil, err
		}
		var items []client.Item
		for _, i := range c.Items {
			kind, err := kindOf(i.Kind)
			if err != nil {
				return nil, err
			}
			items = append(items, client.Item{Name: i.Name, Kind: kind, Permits: i.Permits, Limit: i.Limit})
		}
		do := cl.LockAll
		if c.Wait != nil && *c.Wait == 0 {
			do = cl.TryLockAll
		}
		ls, err := do(ctx, items, opts...)
		if err != nil {
			return nil, err
		}
		var fences []uint64
		for i, l := range ls.All() {
			d.keep(c.Holds[i], l)
			fences = append(fences, l.Fence())
		}
		return fields{"fences": fences}, nil
	})
}

// lockOptions are those of a lock command, or of one for several.
func (d *driver) lockOptions(c *command) ([]client.LockOption, error) {
	opts := []client.LockOption{client.Annotation(c.Annotation), client.OnQueued(func(ahead int) {
		d.say(fields{"event": "queued", "id": c.ID, "ahead": ahead})
	})}
	kind, err := kindOf(c.Kind)
	switch {
	case err != nil:
		return nil, err
	case kind == client.Semaphore:
		opts = append(opts, client.Permits(c.Permits, c.Limit))
	case kind != 0:
		opts = append(opts, client.As(kind))
	}
	if c.Wait != nil {
		opts = append(opts, client.Wait(ms(c.Wait)))
	}
	if c.Lease != nil {
		opts = append(opts, client.Lease(ms(c.Lease)))
	}
	if c.MaxHold != nil {
		opts = append(opts, client.MaxHold(ms(c.MaxHold)))
	}
	if c.Holder != "" {
		opts = append(opts, client.Holder(c.Holder))
	}
	if c.Actor != "" {
		opts = append(opts, client.Actor(c.Actor))
	}
	return opts, nil
}

// cancel ends the context of a command.
func (d *driver) cancel(_ context.Context, c *command) (fields, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end := d.ends[fmt.Sprint(c.Target)]; end != nil {
		end()
	}
	return fields{}, nil
}

func (d *driver) keepPermits(ctx context.Context, c *command) (fields, error) {
	l, err := d.hold(c.Hold)
	if err != nil {
		return nil, err
	}
	left, err := l.KeepPermits(ctx, c.Permits)
	return fields{"left": left}, err
}

// state asks nobody: the Lock knows by itself.
func (d *driver) state(_ context.Context, c *command) (fields, error) {
	l, err := d.hold(c.Hold)
	if err != nil {
		return nil, err
	}
	valid := l.ValidFor()
	if err := l.Err(); err != nil {
		return fields{"held": false, "reason": endOf(err)}, nil
	}
	return fields{"held": true, "fence": l.Fence(), "remaining": valid.Milliseconds()}, nil
}

func (d *driver) look(ctx context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		i, err := cl.Look(ctx, c.Name)
		answer := fields{"held": i.Held, "fence": i.Fence, "waiting": max(i.Waiters, i.Queued)}
		if i.Kind != 0 {
			answer["kind"] = i.Kind.String()
		}
		return answer, err
	})
}

func (d *driver) listHolds(ctx context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		names := []string{}
		for h, err := range cl.Holds(ctx, c.Prefix) {
			if err != nil {
				return nil, err
			}
			names = append(names, h.Name)
		}
		return fields{"names": names}, nil
	})
}

func (d *driver) setLimit(ctx context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		previous, err := cl.SetLimit(ctx, c.Name, c.Limit)
		return fields{"previous": previous}, err
	})
}

// watch tells each end of a hold until unwatch, or until the client is closed.
func (d *driver) watch(_ context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		ctx, cancel := context.WithCancel(context.Background())
		ends, err := cl.Watch(ctx, c.Name)
		if err != nil {
			cancel()
			return nil, err
		}
		d.mu.Lock()
		d.ends[c.Watch] = cancel
		d.mu.Unlock()
		go func() {
			for u := range ends {
				d.say(fields{
					"event": "unlocked", "watch": c.Watch, "name": u.Name, "cause": string(u.Cause), "fence": u.Fence,
					"merged": u.Merged, "gap": u.Gap,
				})
			}
		}()
		return fields{}, nil
	})
}

func (d *driver) unwatch(_ context.Context, c *command) (fields, error) {
	d.end(c.Watch)
	return fields{}, nil
}

// on does something with a client.
func (d *driver) on(c *command, do func(*client.Client) (fields, error)) (fields, error) {
	d.mu.Lock()
	cl := d.clients[c.Client]
	d.mu.Unlock()
	if cl == nil {
		return nil, fmt.Errorf("there is no client %q", c.Client)
	}
	return do(cl)
}

func onHold(do func(context.Context, *client.Lock, *command) error) op {
	return func(d *driver, ctx context.Context, c *command) (fields, error) {
		l, err := d.hold(c.Hold)
		if err != nil {
			return nil, err
		}
		return fields{}, do(ctx, l, c)
	}
}

// onLease is onHold for what changes a lease.
func onLease(do func(*client.Lock, context.Context, time.Duration) error) op {
	return onHold(func(ctx context.Context, l *client.Lock, c *command) error { return do(l, ctx, ms(c.Lease)) })
}

// kindOf reads a kind; none is 0.
func kindOf(name string) (client.Kind, error) {
	if name == "" {
		return 0, nil
	}
	return client.ParseKind(name)
}

// ms reads a time, if there is one.
func ms(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	return time.Duration(*n) * time.Millisecond
}
