package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
)

// single is an acquisition or a release of one exclusive lock, which is what nearly all requests are. Those that wait for Redis
// at the same time go as one call, see many.go. One that waits alone goes by the script of its own.
//
// It has all that Redis is told, as texts. They are made once, by the caller, and commands only point to them.
type single struct {
	store *Store
	op    byte   // as in many.lua
	name  string // as callers know it

	key, token, channel string
	owner               string
	number              string // the TTL of an acquisition, the fence of a release
	heir, heirTTL       string

	ttl      time.Duration              // of an acquisition, as told to Redis
	granted  func(lock.Grant, error)    // of an acquisition
	returned func(lock.Returned, error) // of a release
}

// What many.lua calls them.
const (
	opAcquire  = 'a'
	opRelease  = 'r'
	opHandOver = 'h'
)

// singleClaim and singleReturn say what is a single.
func singleClaim(c lock.Claim) bool   { return c.Kind == lock.Exclusive && c.Count == 1 && c.Fence == 0 }
func singleReturn(r lock.Return) bool { return r.Kind == lock.Exclusive && r.Remaining == 0 }

func (s *Store) acquisition(c *lock.Claim, done func(lock.Grant, error)) *single {
	n := s.prefix + c.Name
	open, shut := around(n)
	ms := millis(c.TTL)
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], ms, 10)
	text := tokenStem(n) + open + n + shut + string(number)
	token := len(text) - len(number)
	return &single{
		store: s, op: opAcquire, name: c.Name,
		key: n, token: text[:token], owner: string(c.Owner), number: text[token:],
		ttl: ttlOf(ms), granted: done,
	}
}

func (s *Store) restitution(r *lock.Return, done func(lock.Returned, error)) *single {
	n := s.prefix + r.Name
	open, shut := around(n)
	stem := tokenStem(n)
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], uint64(r.Fence), 10)
	text := stem + open + n + shut + channelPrefix + open + n + shut + string(number)
	token, channel := len(stem)+len(open)+len(n)+len(shut), len(text)-len(number)
	one := &single{
		store: s, op: opRelease, name: r.Name,
		key: n, token: text[:token], channel: text[token:channel], owner: string(r.Owner), number: text[channel:],
		returned: done,
	}
	if r.Next != nil {
		one.op, one.heir, one.heirTTL = opHandOver, string(r.Next.Owner), strconv.FormatInt(millis(r.Next.TTL), 10)
	}
	return one
}

// start queues it.
func (one *single) start() {
	j := job{single: one, queued: time.Now(), cost: 1}
	if err := one.store.shared.put(j); err != nil {
		go one.end(j.queued, one.failed(one.store.failed(err)))
	}
}

// wait queues it and waits for its outcome, or until ctx ends.
func (one *single) wait(ctx context.Context, told <-chan outcome) outcome {
	ctx, cancel := one.store.bounded(ctx)
	defer cancel()
	o, err := hear(ctx, one.store.shared, job{single: one, queued: time.Now(), cost: 1}, told)
	if err != nil {
		return one.failed(one.store.failed(err))
	}
	return o
}

// alone is the call of its own script.
func (one *single) alone() call {
	s := one.store
	if one.op == opAcquire {
		return call{s.scripts.acquire, 2, []any{
			&one.key, &one.token, &one.owner, "1", &one.number, "0", &s.fenceText,
		}, 1}
	}
	return call{s.scripts.release, 3, []any{
		&one.key, &one.token, &one.channel, &one.owner, &one.number, "0", &one.heir, &one.heirTTL, &s.fenceText,
	}, 1}
}

// outcome is what became of a single.
type outcome struct {
	grant lock.Grant
	back  lock.Returned
	err   error
}

// end tells the outcome.
func (one *single) end(queued time.Time, o outcome) {
	if one.op == opAcquire {
		one.store.scripts.acquire.observe(queued)
		one.granted(o.grant, o.err)
		return
	}
	one.store.scripts.release.observe(queued)
	one.returned(o.back, o.err)
}

// failed is the outcome of an error that has its meaning already.
func (one *single) failed(err error) outcome {
	if one.op == opAcquire {
		return outcome{err: acquireFailed(one.name, err)}
	}
	return outcome{err: releaseFailed(one.name, err)}
}

// aloneAnswered is what its own script answered.
func (one *single) aloneAnswered(cmd *redis.Cmd, err error) outcome {
	a, err := one.store.answered(cmd, err)
	return one.read(a, err)
}

func (one *single) read(a answer, err error) (o outcome) {
	if one.op == opAcquire {
		o.grant, o.err = granted(one.name, a, err)
	} else {
		o.back, o.err = returned(one.name, lock.Exclusive, a, err)
	}
	return o
}

// scriptError is an error that many.lua caught for one of many.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e scriptError) RedisError() {}

// element reads what many.lua answered for it: a number in the ordinary case, else what its own script answers.
func (one *single) element(v any) outcome {
	switch v := v.(type) {
	case int64:
		if one.op == opAcquire && v > 0 {
			return outcome{grant: lock.Grant{Fence: lock.Fence(v), TTL: one.ttl}}
		}
		if one.op != opAcquire && v >= 0 {
			return outcome{back: lock.Returned{Listeners: int(v)}}
		}
	case []any:
		return one.read(answer{list: v}, nil)
	case string:
		return one.failed(one.store.failed(scriptError(v)))
	}
	return one.failed(fmt.Errorf("%w: %w: %v", lock.ErrOutcomeUnknown, errBadAnswer, v))
}
