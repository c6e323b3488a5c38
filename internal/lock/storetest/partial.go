package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// has says whether the Store has locks of a kind.
func (r Rig) has(kind lock.Kind) bool { return !slices.Contains(r.Refuses, kind) }

// kinds are those that the Store has.
func (s *suite) kinds() []lock.Kind { return s.these(allKinds...) }

// these are those of some kinds that the Store has.
func (s *suite) these(some ...lock.Kind) []lock.Kind {
	return slices.DeleteFunc(slices.Clone(some), func(k lock.Kind) bool { return !s.has(k) })
}

// partial is a Store that has not got all kinds. A test that asks for a kind the Store refuses ends when it was refused
// as it must be.
type partial struct {
	lock.Store
	s *suite
}

// refused ends the test if a call asked for a kind that the Store has not got.
func (p partial) refused(err error, kinds ...lock.Kind) {
	for _, k := range kinds {
		if !p.s.has(k) {
			p.s.wantErr(err, lock.ErrKindUnsupported)
			p.s.Skipf("this store has no %v locks, and said so", k)
		}
	}
}

// Acquire implements lock.Store.
func (p partial) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	g, err := p.Store.Acquire(ctx, c)
	p.refused(err, c.Kind)
	return g, err
}

// AcquireAll implements lock.Store.
func (p partial) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	gs, err := p.Store.AcquireAll(ctx, cs)
	for _, c := range cs {
		p.refused(err, c.Kind)
	}
	return gs, err
}

// Release implements lock.Store.
func (p partial) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	res, err := p.Store.Release(ctx, r)
	p.refused(err, r.Kind)
	return res, err
}

// Extend implements lock.Store.
func (p partial) Extend(ctx context.Context, r lock.Renewal) (time.Duration, error) {
	left, err := p.Store.Extend(ctx, r)
	p.refused(err, r.Kind)
	return left, err
}

// Shorten implements lock.Store.
func (p partial) Shorten(ctx context.Context, r lock.Renewal) error {
	err := p.Store.Shorten(ctx, r)
	p.refused(err, r.Kind)
	return err
}

// Raise implements lock.Store.
func (p partial) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	f, err := p.Store.Raise(ctx, c)
	p.refused(err, c.Kind)
	return f, err
}

// ForceRelease implements lock.Store.
func (p partial) ForceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	held, err := p.Store.ForceRelease(ctx, name, kind)
	p.refused(err, kind)
	return held, err
}

// Leave implements lock.Store.
func (p partial) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	err := p.Store.Leave(ctx, name, kind, owners)
	p.refused(err, kind)
	return err
}

// Enlist implements lock.Store.
func (p partial) Enlist(ctx context.Context, name string, owners []lock.Owner, place time.Duration) ([]int, error) {
	positions, err := p.Store.Enlist(ctx, name, owners, place)
	p.refused(err, lock.Fair)
	return positions, err
}

// Succeed implements lock.Store.
func (p partial) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	place time.Duration,
) (int, error) {
	ahead, err := p.Store.Succeed(ctx, name, from, to, place)
	p.refused(err, lock.Fair)
	return ahead, err
}

// SetLimit implements lock.Store.
func (p partial) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	previous, err := p.Store.SetLimit(ctx, name, limit)
	p.refused(err, lock.Semaphore)
	return previous, err
}

// RemoveLimit implements lock.Store.
func (p partial) RemoveLimit(ctx context.Context, name string) (uint32, error) {
	previous, err := p.Store.RemoveLimit(ctx, name)
	p.refused(err, lock.Semaphore)
	return previous, err
}

// AdoptLimit implements lock.Store.
func (p partial) AdoptLimit(ctx context.Context, name string, limit uint32) error {
	err := p.Store.AdoptLimit(ctx, name, limit)
	p.refused(err, lock.Semaphore)
	return err
}

// Queue implements lock.Store.
func (p partial) Queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	owners, err := p.Store.Queue(ctx, name, from, size)
	if !p.s.has(lock.Fair) && (err != nil || len(owners) > 0) {
		p.s.Errorf("got %q, %v: nobody waits for a fair lock, and that is no error", owners, err)
	}
	return owners, err
}

// refusedContract is what a Store does with the kinds it has not got. Each call of a kind is tried, whatever other
// tests do.
var refusedContract = []contract{
	{"EachCallOfAKindItHasNotGot", func(s *suite) {
		whole := s.Store
		if p, ok := whole.(partial); ok {
			whole = p.Store
		}
		for _, kind := range s.Refuses {
			s.Run(kind.String(), func(t *testing.T) { refuses(t, whole, kind) })
		}
	}},
}

// refuses checks each call of a kind.
func refuses(t *testing.T, st lock.Store, kind lock.Kind) {
	ctx := t.Context()
	c := of(kind, "n", "o")
	_, err := st.Acquire(ctx, c)
	_, all := st.AcquireAll(ctx, []lock.Claim{claim("m", "o"), c})
	_, released := st.Release(ctx, back(c, 0))
	_, raised := st.Raise(ctx, c)
	_, extended := st.Extend(ctx, on(c, 1))
	var renewed error
	st.Renew(ctx, []lock.Renewal{on(c, 1)}, func(_ int, err error) { renewed = err })
	_, forced := st.ForceRelease(ctx, "n", kind)
	errs := map[string]error{
		"Acquire": err, "AcquireAll": all, "Release": released, "Extend": extended, "Renew": renewed, "ForceRelease": forced,
		"Shorten": st.Shorten(ctx, on(c, 1)), "Raise": raised,
	}
	if kind == lock.Fair {
		_, errs["Enlist"] = st.Enlist(ctx, "n", []lock.Owner{"o"}, ttl)
		_, errs["Succeed"] = st.Succeed(ctx, "n", []lock.Owner{"o"}, "p", ttl)
		errs["Leave"] = st.Leave(ctx, "n", kind, []lock.Owner{"o"})
	}
	if kind == lock.Semaphore {
		_, errs["SetLimit"] = st.SetLimit(ctx, "n", 1)
		_, errs["RemoveLimit"] = st.RemoveLimit(ctx, "n")
		errs["AdoptLimit"] = st.AdoptLimit(ctx, "n", 1)
	}
	s := &suite{T: t, Rig: Rig{Store: st}}
	for call, err := range errs {
		t.Log(call, err)
		s.wantErr(err, lock.ErrKindUnsupported)
	}
	s.wantFree("m")
	s.wantFree("n")
}
