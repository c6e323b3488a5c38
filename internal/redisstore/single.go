package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// single is an ordinary acquisition or release of one exclusive lock, one read hold or one permit, which is what nearly
// all requests are. Those that wait for Redis at the same time go as one call, see many.go. One that waits alone goes
// by the script of its own.
//
// It has all that Redis is told, as texts. They are made once, by the caller, and commands only point to them.
type single struct {
	store *Store
	op    byte   // as in script/many.lua
	name  string // as callers know it

	key, token, channel     string
	owner, tenant           string // and whose share of Redis it uses
	number                  string // the TTL of an acquisition, the fence of a release
	least                   string // the least fence of an acquisition or of a successor, if one was given
	successor, successorTTL string
	share                   *share // of kinds that many hold at once

	ttl      time.Duration              // of an acquisition, as told to Redis
	granted  func(lock.Grant, error)    // of an acquisition
	returned func(lock.Returned, error) // of a release
}

// What script/many.lua calls them.
const (
	opAcquire  = 'a'
	opAdvance  = 'A'
	opRelease  = 'r'
	opHandOver = 'h'
	opBegin    = 'b'
	opEnd      = 'e'
	opPermit   = 'p'
	opVacate   = 'v'
)

// singleClaim and singleReturn say what is a single.
func singleClaim(c *lock.Claim) bool {
	switch c.Kind {
	case lock.Exclusive:
		return c.Count == 1
	case lock.Read:
		return c.Count == 1 && c.Fence == 0 && c.WriteOwner == ""
	case lock.Semaphore:
		return c.Permits <= 1
	default:
		return false
	}
}

func singleReturn(r *lock.Return) bool {
	switch r.Kind {
	case lock.Exclusive, lock.Read:
		return r.Remaining == 0
	case lock.Semaphore:
		return r.Remaining == 0 && r.Permits == 1
	default:
		return false
	}
}

func (s *Store) acquisition(c *lock.Claim, done func(lock.Grant, error)) *single {
	if c.Kind.Shared() {
		return s.sharedAcquisition(c, done)
	}
	n := s.Prefix + c.Name
	open, shut := layout.Around(n)
	ms := script.Millis(c.TTL)
	var digits [20]byte
	number := strconv.AppendInt(digits[:0], ms, 10)
	text := layout.TokenStem(n) + open + n + shut + string(number)
	token := len(text) - len(number)
	one := &single{
		store: s, op: opAcquire, name: c.Name,
		key: n, token: text[:token], owner: string(c.Owner), tenant: c.For(), number: text[token:],
		ttl: script.TTL(ms), granted: done,
	}
	if c.Fence != 0 {
		one.op, one.least = opAdvance, strconv.FormatUint(uint64(c.Fence), 10)
	}
	return one
}

func (s *Store) restitution(r *lock.Return, done func(lock.Returned, error)) *single {
	if r.Kind.Shared() {
		return s.sharedRestitution(r, done)
	}
	n := s.Prefix + r.Name
	open, shut := layout.Around(n)
	stem := layout.TokenStem(n)
	var digits [20]byte
	number := strconv.AppendUint(digits[:0], uint64(r.Fence), 10)
	text := stem + open + n + shut + layout.ChannelPrefix + open + n + shut + string(number)
	token, channel := len(stem)+len(open)+len(n)+len(shut), len(text)-len(number)
	one := &single{
		store: s, op: opRelease, name: r.Name,
		key: n, token: text[:token], channel: text[token:channel], owner: string(r.Owner), tenant: r.For(),
		number:   text[channel:],
		returned: done,
	}
	if r.Next != nil {
		one.op, one.successor = opHandOver, string(r.Next.Owner)
		one.successorTTL = strconv.FormatInt(script.Millis(r.Next.TTL), 10)
		one.least = strconv.FormatUint(uint64(r.Next.Fence), 10)
	}
	return one
}

func (one *single) job() pipe.Job {
	return pipe.Job{Single: one, Queued: time.Now(), Cost: one.cost(), From: one.tenant}
}

// start queues it.
func (one *single) start() {
	j := one.job()
	if err := one.store.Shared.Put(j); err != nil {
		go one.Fail(j.Queued, err)
	}
}

// wait queues it and waits for its outcome, or until ctx ends.
func (one *single) wait(ctx context.Context, told <-chan outcome) outcome {
	ctx, cancel := one.store.Bounded(ctx)
	defer cancel()
	o, err := pipe.Hear(ctx, one.store.Shared, one.job(), told)
	if err != nil {
		return one.failed(one.store.Failed(err))
	}
	return o
}

// alone is the call of its own script.
func (one *single) alone() script.Call {
	if one.share != nil {
		return one.aloneShared()
	}
	s := one.store
	if one.op == opAcquire || one.op == opAdvance {
		return script.Call{Script: s.Scripts.Acquire, Keys: 2, Cost: 1, Grants: true, Words: []any{
			&one.key, &one.token, &one.owner, "1", &one.number, cmp.Or(one.least, "0"), &s.FenceText,
		}}
	}
	return script.Call{Script: s.Scripts.Release, Keys: 3, Cost: 1, Grants: one.grants(), Words: []any{
		&one.key, &one.token, &one.channel, &one.owner, &one.number, "0", &one.successor, &one.successorTTL, &s.FenceText,
		cmp.Or(one.least, "0"),
	}}
}

// outcome is what became of a single.
type outcome struct {
	grant lock.Grant
	back  lock.Returned
	err   error
}

// end tells the outcome.
func (one *single) end(queued time.Time, o outcome) {
	one.script().Observe(queued)
	if one.acquires() {
		one.granted(o.grant, o.err)
		return
	}
	one.returned(o.back, o.err)
}

// Fail ends it with an error of the way to Redis.
func (one *single) Fail(queued time.Time, err error) {
	one.end(queued, one.failed(one.store.Failed(err)))
}

// acquires says whether it is an acquisition.
func (one *single) acquires() bool {
	return one.op == opAcquire || one.op == opAdvance || one.op == opBegin || one.op == opPermit
}

// grants says whether it may take something, for whom it is asked or for a successor.
func (one *single) grants() bool { return one.acquires() || one.op == opHandOver }

// kind is the kind of its lock.
func (one *single) kind() lock.Kind {
	if one.share == nil {
		return lock.Exclusive
	}
	return one.share.keys.kind
}

// script is the script of its own.
func (one *single) script() *script.Script {
	all := &one.store.Scripts
	switch one.op {
	case opAcquire, opAdvance:
		return all.Acquire
	case opBegin:
		return all.AcquireRead
	case opEnd:
		return all.ReleaseRead
	case opPermit:
		return all.AcquirePermits
	case opVacate:
		return all.ReleasePermits
	default:
		return all.Release
	}
}

// failed is the outcome of an error that has its meaning already.
func (one *single) failed(err error) outcome {
	if one.acquires() {
		return outcome{err: acquireFailed(one.name, err)}
	}
	return outcome{err: releaseFailed(one.name, err)}
}

// aloneAnswered is what its own script answered.
func (one *single) aloneAnswered(cmd *redis.Cmd, err error) outcome {
	a, err := one.store.Answered(cmd, err)
	return one.read(a, err)
}

func (one *single) read(a script.Answer, err error) (o outcome) {
	if one.acquires() {
		o.grant, o.err = granted(one.name, a, err)
	} else {
		o.back, o.err = returned(one.name, one.kind(), a, err)
	}
	return o
}

// scriptError is an error that script/many.lua caught for one of many.
type scriptError string

func (e scriptError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (e scriptError) RedisError() {}

// element reads what script/many.lua answered for it: a number in the ordinary case, else what its own script answers.
func (one *single) element(v any) outcome {
	switch v := v.(type) {
	case int64:
		if one.acquires() && v > 0 {
			return outcome{grant: lock.Grant{Fence: lock.Fence(v), TTL: one.ttl}}
		}
		if !one.acquires() && v >= 0 {
			return outcome{back: lock.Returned{Listeners: int(v)}}
		}
	case []any:
		return one.read(script.Answer{List: v}, nil)
	case string:
		return one.failed(one.store.Failed(scriptError(v)))
	}
	return one.failed(fmt.Errorf("%w: %w: %v", lock.ErrOutcomeUnknown, script.ErrBadAnswer, v))
}
