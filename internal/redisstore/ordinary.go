package redisstore

import (
	"crypto/sha1" //nolint:gosec // permits are named by it, and it is no secret
	"strconv"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// ordinary has the arguments of script/many.lua for an acquisition or release of one exclusive lock, one read hold or
// one permit: nearly all operations are one of these. Commands point to texts, which therefore must not change.
type ordinary struct {
	letter byte           // what script/many.lua calls it; 0 if it is not ordinary
	script *script.Script // the operation's own
	keys   int            // how many of the texts are keys
	n      int
	texts  [8]string
}

// What script/many.lua calls them.
const (
	opAcquire = 'a'
	opAdvance = 'A'
	opRelease = 'r'
	opHandoff = 'h'
	opBegin   = 'b'
	opEnd     = 'e'
	opPermit  = 'p'
	opVacate  = 'v'
)

// is sets the fields; texts has the keys first.
func (o *ordinary) is(letter byte, own *script.Script, keys int, texts ...string) {
	o.letter, o.script, o.keys, o.n = letter, own, keys, copy(o.texts[:], texts)
}

// pointTo adds pointers to texts to the words of a command.
func pointTo(words []any, texts []string) []any {
	for i := range texts {
		words = append(words, &texts[i])
	}
	return words
}

// cost is what the operation costs Redis, in operations of exclusive locks.
func (o *ordinary) cost() int {
	switch o.letter {
	case opBegin, opEnd, opPermit, opVacate:
		return 2
	default:
		return 1
	}
}

// ofClaim fills in the ordinary part if the acquisition is ordinary.
func (op *operation) ofClaim() {
	c, all := &op.claim, &op.store.Scripts
	n, o := op.store.Prefix+c.Name, string(c.Owner)
	switch {
	case c.Kind == lock.Exclusive && c.Fence == 0:
		op.is(opAcquire, all.Acquire, 2, n, layout.Token(n), o, millis(c))
	case c.Kind == lock.Exclusive:
		op.is(opAdvance, all.Acquire, 2, n, layout.Token(n), o, millis(c), script.Decimal(c.Fence))
	case c.Kind == lock.Read && c.Fence == 0 && c.WriteOwner == "":
		k := op.store.keysFor(n, c.Kind)
		op.is(opBegin, all.AcquireAll, 4, n, k.token, k.third, k.base+o+firstHold, o, millis(c))
	case c.Kind == lock.Semaphore && c.Permits <= 1:
		k := op.store.keysFor(n, c.Kind)
		op.is(opPermit, all.AcquireAll, 4, n, k.token, k.third, k.channel,
			o, firstPermit(c.Owner), millis(c), strconv.FormatUint(uint64(c.Limit), 10))
	}
}

func millis(c *lock.Claim) string { return strconv.FormatInt(script.Millis(c.TTL), 10) }

// ofReturn fills in the ordinary part if the release is ordinary.
func (op *operation) ofReturn() {
	r, all := &op.back, &op.store.Scripts
	n, o := op.store.Prefix+r.Name, string(r.Owner)
	switch {
	case r.Kind == lock.Exclusive && r.Next == nil:
		op.is(opRelease, all.Release, 3, n, layout.Token(n), layout.Channel(n), o, script.Decimal(r.Fence))
	case r.Kind == lock.Exclusive:
		op.is(opHandoff, all.Release, 3, n, layout.Token(n), layout.Channel(n), o, script.Decimal(r.Fence),
			string(r.Next.Owner), strconv.FormatInt(script.Millis(r.Next.TTL), 10), script.Decimal(r.Next.Fence))
	case r.Kind == lock.Read:
		k := op.store.keysFor(n, r.Kind)
		op.is(opEnd, all.ReleaseRead, 3, n, k.channel, k.base+o+firstHold, o, script.Decimal(r.Fence))
	case r.Kind == lock.Semaphore && r.Permits == 1 && r.Keep == 0:
		k := op.store.keysFor(n, r.Kind)
		op.is(opVacate, all.ReleasePermits, 3, n, k.third, k.channel, o, firstPermit(r.Owner), script.Decimal(r.Fence))
	}
}

// sharedKeys are the keys of a name that many hold at once. They are kept, because the next operation is often about
// the same name.
type sharedKeys struct {
	n, token, third, channel, base string
	kind                           lock.Kind
}

// keysFor are the keys of n, a name with its prefix. third is the key of the waiting writer, or of the permits that are
// out.
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

// firstHold is what the key of an owner's first read hold ends with, see script/rw.lua.
const firstHold = ":rwlock_timeout:1"

// firstPermit is the id of an owner's first permit, see script/semaphore.lua.
func firstPermit(o lock.Owner) string {
	sum := sha1.Sum([]byte(o)) //nolint:gosec // as above
	copy(sum[12:], "\x00\x00\x00\x01")
	return string(sum[:16])
}
