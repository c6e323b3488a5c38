package storetest

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// named is a Store whose owners have short names in tests, such as "a" or "s:#1". A Store over Redis takes for an owner
// only what begins with a UUID.
type named struct{ lock.Store }

// uuidBytes is how many bytes of a name a UUID has room for.
const uuidBytes = 16

// Full is the owner that a short name stands for: its session, which is what stands before the first colon, is written
// as a UUID, in the order of the names. A name without a colon is all session.
func Full(o lock.Owner) lock.Owner {
	if o == "" {
		return ""
	}
	session, rest, whole := strings.Cut(string(o), ":")
	if len(session) >= uuidBytes {
		return o // it is one already, or meant to be none
	}
	var b [uuidBytes]byte
	copy(b[:], session)
	if !whole {
		b[uuidBytes-1] = 1
	}
	h := hex.EncodeToString(b[:])
	return lock.Owner(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + ":" + rest)
}

// short is the name of a full owner.
func short(o lock.Owner) lock.Owner {
	id, rest, ok := strings.Cut(string(o), ":")
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if !ok || err != nil || len(b) != uuidBytes {
		return o
	}
	session := strings.TrimRight(string(b[:uuidBytes-1]), "\x00")
	if b[uuidBytes-1] == 1 {
		return lock.Owner(session + rest)
	}
	return lock.Owner(session + ":" + rest)
}

func fulls(os []lock.Owner) []lock.Owner {
	full := make([]lock.Owner, len(os))
	for i, o := range os {
		full[i] = Full(o)
	}
	return full
}

func fullClaim(c lock.Claim) lock.Claim {
	c.Owner, c.Beside = Full(c.Owner), Full(c.Beside)
	return c
}

func fullReturn(r lock.Return) lock.Return {
	r.Owner = Full(r.Owner)
	if r.Next != nil {
		next := *r.Next
		next.Owner = Full(next.Owner)
		r.Next = &next
	}
	return r
}

func fullRenewal(r lock.Renewal) lock.Renewal {
	r.Owner = Full(r.Owner)
	return r
}

// shortly has an error tell short names.
func shortly(err error) error {
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		held.HeldBy = short(held.HeldBy)
	}
	return err
}

func shortNotices(notify func(lock.Notice)) func(lock.Notice) {
	return func(n lock.Notice) {
		n.For = short(n.For)
		notify(n)
	}
}

// Acquire implements lock.Store, and so do the others.
func (n named) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	g, err := n.Store.Acquire(ctx, fullClaim(c))
	return g, shortly(err)
}

func (n named) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	full := make([]lock.Claim, len(cs))
	for i, c := range cs {
		full[i] = fullClaim(c)
	}
	gs, err := n.Store.AcquireAll(ctx, full)
	return gs, shortly(err)
}

func (n named) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	return n.Store.Raise(ctx, fullClaim(c))
}

func (n named) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	res, err := n.Store.Release(ctx, fullReturn(r))
	res.Turn = short(res.Turn)
	return res, err
}

func (n named) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	n.Store.StartAcquire(fullClaim(c), func(g lock.Grant, err error) { done(g, shortly(err)) })
}

func (n named) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	n.Store.StartRelease(fullReturn(r), func(res lock.Returned, err error) {
		res.Turn = short(res.Turn)
		done(res, err)
	})
}

func (n named) Renew(ctx context.Context, rs []lock.Renewal, done func(i int, err error)) {
	full := make([]lock.Renewal, len(rs))
	for i, r := range rs {
		full[i] = fullRenewal(r)
	}
	n.Store.Renew(ctx, full, done)
}

func (n named) Extend(ctx context.Context, r lock.Renewal) (time.Duration, error) {
	return n.Store.Extend(ctx, fullRenewal(r))
}

func (n named) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	n.Store.StartExtend(fullRenewal(r), done)
}

func (n named) Shorten(ctx context.Context, r lock.Renewal) error {
	return n.Store.Shorten(ctx, fullRenewal(r))
}

func (n named) Enlist(ctx context.Context, name string, owners []lock.Owner, place time.Duration) ([]int, error) {
	return n.Store.Enlist(ctx, name, fulls(owners), place)
}

func (n named) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	return n.Store.Leave(ctx, name, kind, fulls(owners))
}

func (n named) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	place time.Duration,
) (int, error) {
	return n.Store.Succeed(ctx, name, fulls(from), Full(to), place)
}

func (n named) Queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	os, err := n.Store.Queue(ctx, name, from, size)
	for i := range os {
		os[i] = short(os[i])
	}
	return os, err
}

func (n named) ListenTurn(name string, o lock.Owner, notify func(lock.Notice)) (stop func()) {
	return n.Store.ListenTurn(name, Full(o), shortNotices(notify))
}

func (n named) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	return n.Store.Listen(name, kind, shortNotices(notify))
}

func (n named) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return n.Store.Watch(name, shortNotices(notify))
}

func (n named) Look(ctx context.Context, name string) (lock.State, error) {
	st, err := n.Store.Look(ctx, name)
	st.Owner = short(st.Owner)
	return st, err
}

func (n named) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	page, next, err := n.Store.List(ctx, prefix, cursor, size)
	for i := range page {
		page[i].Owner = short(page[i].Owner)
	}
	return page, next, err
}

func (n named) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	hs, err := n.Store.Holders(ctx, name, size)
	for i := range hs {
		hs[i].Owner = short(hs[i].Owner)
	}
	return hs, err
}

// withNames is a rig whose owners have short names.
func withNames(r Rig) Rig {
	r.Store = named{r.Store}
	if expire := r.Hooks.ExpireHold; expire != nil {
		r.Hooks.ExpireHold = func(name string, o lock.Owner) error { return expire(name, Full(o)) }
	}
	if expire := r.Hooks.ExpirePlace; expire != nil {
		r.Hooks.ExpirePlace = func(name string, o lock.Owner) error { return expire(name, Full(o)) }
	}
	return r
}
