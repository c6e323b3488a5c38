package redisstore

import (
	"crypto/sha1" //nolint:gosec // permits are named by it, and it is no secret
	"strconv"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// share is what a single of a kind that many hold at once has besides.
type share struct {
	keys  *sharedKeys
	hold  string // the key of the hold, or the id of the permit
	limit string // of an acquisition of a permit
}

// sharedKeys are the keys of a name that many hold at once. As they do, these are often the same as those of the last
// request.
type sharedKeys struct {
	n, token, third, channel, base string
	kind                           lock.Kind
}

// keysFor are the keys of N. third is that of the waiting writer, or of the permits that are out.
func (s *Store) keysFor(n string, kind lock.Kind) *sharedKeys {
	if last := s.lastShared.Load(); last != nil && last.n == n && last.kind == kind {
		return last
	}
	keys := &sharedKeys{n: n, kind: kind, token: layout.Token(n), base: layout.HoldBase(n)}
	if kind == lock.Read {
		keys.third, keys.channel = layout.Writer(n), layout.RWChannel(n)
	} else {
		keys.third, keys.channel = layout.PermitsOut(n), layout.PermitChannel(n)
	}
	s.lastShared.Store(keys)
	return keys
}

// sharing makes a single of a kind that many hold at once.
func (s *Store) sharing(name string, kind lock.Kind, o lock.Owner) *single {
	keys := s.keysFor(s.Prefix+name, kind)
	both := &struct {
		single
		share
	}{
		single{store: s, name: name, key: keys.n, token: keys.token, channel: keys.channel, owner: string(o)},
		share{keys: keys},
	}
	if kind == lock.Read {
		both.hold = keys.base + string(o) + firstHold
	} else {
		both.hold = firstPermit(o)
	}
	both.single.share = &both.share
	return &both.single
}

// firstHold is what the key of an owner's first read hold ends with, see script/rw.lua.
const firstHold = ":rwlock_timeout:1"

func (s *Store) sharedAcquisition(c *lock.Claim, done func(lock.Grant, error)) *single {
	one, ms := s.sharing(c.Name, c.Kind, c.Owner), script.Millis(c.TTL)
	one.tenant, one.op, one.granted = c.For(), opBegin, done
	one.number, one.ttl = strconv.FormatInt(ms, 10), script.TTL(ms)
	if c.Kind == lock.Semaphore {
		one.op, one.share.limit = opPermit, strconv.FormatUint(uint64(c.Limit), 10)
	}
	return one
}

func (s *Store) sharedRestitution(r *lock.Return, done func(lock.Returned, error)) *single {
	one := s.sharing(r.Name, r.Kind, r.Owner)
	one.tenant, one.op, one.number, one.returned = r.For(), opEnd, script.Decimal(r.Fence), done
	if r.Kind == lock.Semaphore {
		one.op = opVacate
	}
	return one
}

// costOfShare is what one costs Redis, in singles.
const costOfShare = 2

func (one *single) cost() int {
	if one.share != nil {
		return costOfShare
	}
	return 1
}

// aloneShared is the call of the script of its own.
func (one *single) aloneShared() script.Call {
	keys := one.share.keys
	words := []any{&one.key, &one.token, &keys.third, &one.owner}
	switch one.op {
	case opBegin:
		words = append(words, "1", &one.number, "0", &one.store.FenceText, "", &keys.base)
	case opEnd:
		words = append(words, &one.number, "0", &one.channel, &keys.base)
	case opPermit:
		words = append(words, "1", &one.number, &one.share.limit, &one.store.FenceText, &one.channel)
	default:
		words = append(words, "1", &one.channel, &one.number, "0")
	}
	return script.Call{Script: one.script(), Keys: 3, Words: words, Cost: script.CostOf(len(words)), Grants: one.grants()}
}

// firstPermit is the id of an owner's first permit, see script/semaphore.lua.
func firstPermit(o lock.Owner) string {
	sum := sha1.Sum([]byte(o)) //nolint:gosec // as above
	copy(sum[12:], "\x00\x00\x00\x01")
	return string(sum[:16])
}

// keysOf and wordsOf add what script/many.lua is told of a single.
func (one *single) keysOf(words []any) []any {
	words = append(words, &one.key)
	switch one.op {
	case opAcquire, opAdvance:
		return append(words, &one.token)
	case opBegin:
		return append(words, &one.token, &one.share.keys.third, &one.share.hold)
	case opEnd:
		return append(words, &one.channel, &one.share.hold)
	case opPermit:
		return append(words, &one.token, &one.share.keys.third, &one.channel)
	case opVacate:
		return append(words, &one.share.keys.third, &one.channel)
	default:
		return append(words, &one.token, &one.channel)
	}
}

func (one *single) wordsOf(words []any) []any {
	words = append(words, &one.owner)
	switch one.op {
	case opAdvance:
		return append(words, &one.number, &one.least)
	case opHandOver:
		return append(words, &one.number, &one.successor, &one.successorTTL, &one.least)
	case opPermit:
		return append(words, &one.share.hold, &one.number, &one.share.limit)
	case opVacate:
		return append(words, &one.share.hold, &one.number)
	default:
		return append(words, &one.number)
	}
}
