package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockd-io/lockd/client"
)

// env are the servers: one Redis, and one or more replicas of lockd.
type env struct {
	redis   *process
	masters []*process // all the servers that a peer uses, if it is not redis alone
	lockd   []*process
	scripts *scripts
}

// peer is one way to lock.
type peer struct {
	name string
	kind kind
	// commands is how many commands Redis runs for a lock + unlock, at least, those in scripts included.
	commands int
	// open connects; callers is how many will lock at the same time. It is nil if the peer is not there.
	open func(e env, callers int) (locker, error)
}

// kind says how a peer is compared.
type kind int

const (
	ours    kind = iota // lockd
	library             // a library as its documentation shows it
	tuned               // a library on go-redis AutoPipeline, which its documentation does not mention
	floor               // lockd's scripts without lockd: no waiting, no renewal, no word of a loss
	java                // Redisson, whose layout lockd shares
	echoed              // gRPC alone: a server that only answers, or asks Redis and answers
)

// locker is an open peer. lock waits for a name and returns how to release it; caller is who asks, from 0.
type locker interface {
	lock(ctx context.Context, caller int, name string) (unlockFunc, error)
	close()
}

// runner is a locker whose callers are in a process of their own.
type runner interface {
	pairs(run time.Duration, callers int) (pairResult, error)
	pid() int
}

// server is a locker with processes of its own, which it puts in the place of those that all share.
type server interface{ among(e env) env }

// unlockFunc releases a lock.
type unlockFunc func(ctx context.Context) error

// leaseTTL is how long a lock lasts with the peers that need to be told. No run is as long.
const leaseTTL = 30 * time.Second

// poolSize is the number of connections of a go-redis pool: one for each caller, up to where more are no faster.
func poolSize(callers int) int { return min(max(callers, 1), 64) }

func newPool(e env, callers int) *redis.Client {
	n := poolSize(callers)
	return redis.NewClient(&redis.Options{Addr: e.redis.addr, PoolSize: n, MinIdleConns: n})
}

// funcs makes a locker of functions.
type funcs struct {
	lockFunc  func(ctx context.Context, caller int, name string) (unlockFunc, error)
	closeFunc func()
}

func (f funcs) lock(ctx context.Context, caller int, name string) (unlockFunc, error) {
	return f.lockFunc(ctx, caller, name)
}
func (f funcs) close() { f.closeFunc() }

// lockdWith is one lockd, its callers spread over some clients, each of which has one connection and one stream.
func lockdWith(clients int, opts ...client.LockOption) func(env, int) (locker, error) {
	return lockdOn(1, clients, opts...)
}

// lockdOn is lockdWith, the clients spread over some replicas.
func lockdOn(replicas, clients int, opts ...client.LockOption) func(env, int) (locker, error) {
	return func(e env, _ int) (locker, error) {
		return sessionsOf(clients, func(i int) (*client.Client, error) {
			return client.Dial(e.lockd[i%replicas].addr, client.WithName("bench"))
		}, opts...)
	}
}

// sessionsOf spreads callers over n clients.
func sessionsOf(n int, dial func(i int) (*client.Client, error), opts ...client.LockOption) (locker, error) {
	var all []*client.Client
	closeAll := func() {
		for _, c := range all {
			_ = c.Close()
		}
	}
	for i := range n {
		c, err := dial(i)
		if err != nil {
			closeAll()
			return nil, err
		}
		all = append(all, c)
	}
	return funcs{closeFunc: closeAll, lockFunc: func(ctx context.Context, caller int, name string) (unlockFunc, error) {
		l, err := all[caller%n].Lock(ctx, name, opts...)
		if err != nil {
			return nil, err
		}
		return l.Unlock, nil
	}}, nil
}

// redislockOn is bsm/redislock on a go-redis client made by dial, waiting as retry says.
func redislockOn(dial dialer, retry func() redislock.RetryStrategy) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		c, closeIt, err := dial(e, callers)
		if err != nil {
			return nil, err
		}
		locks := redislock.New(c)
		return funcs{closeFunc: closeIt, lockFunc: func(ctx context.Context, _ int, name string) (unlockFunc, error) {
			l, err := locks.Obtain(ctx, name, leaseTTL, &redislock.Options{RetryStrategy: retry()})
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}}, nil
	}
}

// dialer opens something that runs scripts.
type dialer func(e env, callers int) (c redis.Scripter, closeIt func(), err error)

func pooled(e env, callers int) (redis.Scripter, func(), error) {
	c := newPool(e, callers)
	return c, func() { _ = c.Close() }, nil
}

// pipelined shares one connection between all callers, their commands batched by go-redis.
func pipelined(e env, callers int) (redis.Scripter, func(), error) {
	c := newPool(e, 1)
	ap, err := c.AutoPipeline()
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return ap, func() { _ = ap.Close(); _ = c.Close() }, nil
}

// rueidislockWith is rueidislock with the options its README recommends for one Redis 7, its callers spread over some
// lockers, each of which has one connection. TryNextAfter is how long it waits for an answer before it tries the next
// key. There is none with one key, and a caller that gave up would wait in vain, so it is long.
func rueidislockWith(lockers int) func(env, int) (locker, error) {
	return func(e env, _ int) (locker, error) {
		var all []rueidislock.Locker
		closeAll := func() {
			for _, l := range all {
				l.Close()
			}
		}
		for range lockers {
			l, err := rueidislock.NewLocker(rueidislock.LockerOption{
				ClientOption:   rueidis.ClientOption{InitAddress: []string{e.redis.addr}},
				KeyMajority:    1,
				NoLoopTracking: true,
				TryNextAfter:   time.Second,
			})
			if err != nil {
				closeAll()
				return nil, err
			}
			all = append(all, l)
		}
		return funcs{closeFunc: closeAll, lockFunc: func(ctx context.Context, caller int, name string) (unlockFunc, error) {
			_, cancel, err := all[caller%lockers].WithContext(ctx, name)
			if err != nil {
				return nil, err
			}
			return func(context.Context) error { cancel(); return nil }, nil
		}}, nil
	}
}

// redsyncOn is redsync on one pool. A Lock that failed 32 times, its default, is tried again.
func redsyncOn(dial func(e env, callers int) (redsyncredis.Pool, func(), error)) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		pool, closeIt, err := dial(e, callers)
		if err != nil {
			return nil, err
		}
		return redsyncWith([]redsyncredis.Pool{pool}, closeIt), nil
	}
}

// redsyncWith is redsync on some pools, one for each master.
func redsyncWith(pools []redsyncredis.Pool, closeAll func()) locker {
	rs := redsync.New(pools...)
	return funcs{closeFunc: closeAll, lockFunc: func(ctx context.Context, _ int, name string) (unlockFunc, error) {
		m := rs.NewMutex(name, redsync.WithExpiry(leaseTTL))
		for {
			err := m.LockContext(ctx)
			if err == nil {
				return func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err }, nil
			}
			var taken *redsync.ErrTaken
			if ctx.Err() != nil || !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
				return nil, err
			}
		}
	}}
}
