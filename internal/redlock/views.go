package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// survey asks all members for a view. merge makes one of what they say; agreed says that more answers would not change
// it. Without a majority there is none.
func survey[T any](ctx context.Context, s *Store, what, name string, kind lock.Kind,
	read func(context.Context, *member) (T, error), merge func([]T) (one T, agreed bool),
) (T, error) {
	return question[T, T]{
		what: what, name: name, kind: kind, ask: read, quiet: true,
		verdict: func(b *ballot[T], last bool) (none T, over bool, err error) {
			said := b.said()
			if err := b.preventing(lock.ErrKindMismatch, lock.ErrInvalid); err != nil {
				return none, true, err
			}
			if len(said) >= s.quorum {
				if one, agreed := merge(said); agreed || last {
					return one, true, nil
				}
			}
			if mismatch := b.refusals(lock.ErrKindMismatch); mismatch > 0 && mismatch+len(said) >= s.quorum {
				return none, last, b.first(lock.ErrKindMismatch)
			}
			return none, last, lock.ErrNoQuorum
		},
	}.put(ctx, s)
}

// said is what those say that answered. mu is held.
func (b *ballot[T]) said() (all []T) {
	for _, v := range b.votes {
		if v.cast && v.err == nil {
			all = append(all, v.v)
		}
	}
	return all
}

// seen is what a member says of a name.
type seen struct {
	lock.State
	from *member
}

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	one, err := survey(ctx, s, "look at", name, lock.Exclusive, looking(name), s.state)
	return one.State, err
}

// looking asks a member for what it knows of a name.
func looking(name string) func(context.Context, *member) (seen, error) {
	return func(ctx context.Context, m *member) (seen, error) {
		st, err := m.Look(ctx, name)
		return seen{st, m}, err
	}
}

// whose tells states of a name apart: readers are many, so it does not matter which one is named.
func whose(st seen) lock.State {
	switch {
	case !st.Held:
		return lock.State{}
	case st.Kind == lock.Read:
		return lock.State{Held: true, Kind: st.Kind}
	}
	return lock.State{Held: true, Kind: st.Kind, Owner: kin(st.Owner)}
}

// state is what a majority says of a name. If there is none, nobody holds it.
func (s *Store) state(said []seen) (one seen, agreed bool) {
	var same []seen
	for _, st := range said {
		var like []seen
		for _, other := range said {
			if whose(other) == whose(st) {
				like = append(like, other)
			}
		}
		if len(like) > len(same) {
			same = like
		}
	}
	if len(same) < s.quorum {
		one.Name = said[0].Name
		for _, st := range said {
			one.Fence = max(one.Fence, st.Fence)
		}
		return one, false
	}
	one = same[0]
	left := make([]time.Duration, 0, len(same))
	fences := make([]lock.Fence, 0, len(same))
	for _, st := range same {
		one.Fence, one.Count, one.Holders = max(one.Fence, st.Fence), max(one.Count, st.Count), max(one.Holders, st.Holders)
		one.Owner = min(one.Owner, st.Owner)
		left = append(left, lasting(st.TTL))
		if !s.quarantined(st.from) { // else it may have lost the hold, and have it again from a command that came late
			fences = append(fences, st.Fence)
		}
	}
	agreed = true
	if one.Held {
		one.Members = uint32(len(same)) //nolint:gosec // there are few
		one.TTL = ofMajority(left, s.quorum)
	}
	if one.Held && !one.Kind.Shared() {
		known := len(fences)
		if known == 0 {
			fences = append(fences, one.Fence)
		}
		one.Fence, agreed = s.fenceOf(fences, len(s.members)-known)
	}
	return one, agreed
}

// fenceOf is the greatest fence that a majority has reached, of a hold that so many members have at least. A member may
// have a greater one (known.go), or a smaller one that is about to be raised. final says that those that are missing
// would not change it: they did not say, or have lost a hold that was told with a greater fence.
func (s *Store) fenceOf(fences []lock.Fence, missing int) (f lock.Fence, final bool) {
	slices.Sort(fences)
	f = fences[max(len(fences)-s.quorum, 0)]
	above, _ := slices.BinarySearch(fences, f+1)
	return f, len(fences)-above+missing < s.quorum
}

// lasting is a remaining time that can be compared.
func lasting(ttl time.Duration) time.Duration {
	if ttl == lock.NoTTL {
		return math.MaxInt64
	}
	return ttl
}

// ofMajority is for how long so many have something, by our clock.
func ofMajority(left []time.Duration, quorum int) time.Duration {
	slices.Sort(left)
	most := left[max(len(left)-quorum, 0)]
	if most == math.MaxInt64 {
		return lock.NoTTL
	}
	return trusted(most)
}

// Holders implements lock.Store.
func (s *Store) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	read := func(ctx context.Context, m *member) ([]lock.Holder, error) { return m.Holders(ctx, name, size) }
	return survey(ctx, s, "holders of", name, lock.Exclusive, read,
		func(said [][]lock.Holder) ([]lock.Holder, bool) { return s.holders(said, size) })
}

// holders are those that a majority names. If there are more than were asked for, members may name others, and each is
// taken.
func (s *Store) holders(said [][]lock.Holder, size int) (one []lock.Holder, agreed bool) {
	type key struct {
		o lock.Owner
		k lock.Kind
	}
	need, agreed := s.quorum, true
	left := map[key][]time.Duration{}
	all := map[key]lock.Holder{}
	for _, hs := range said {
		if len(hs) == max(size, 1) {
			need = 1
		}
		for _, h := range hs {
			k := key{h.Owner, h.Kind}
			if h.Kind != lock.Read { // as in kinHold
				k.o = kin(h.Owner)
			}
			left[k] = append(left[k], lasting(h.TTL))
			if other, there := all[k]; there {
				h.Owner, h.Count = min(h.Owner, other.Owner), max(h.Count, other.Count)
			}
			all[k] = h
		}
	}
	for k, ttls := range left {
		agreed = agreed && len(ttls) == len(said)
		if len(ttls) >= need {
			h := all[k]
			h.TTL = ofMajority(ttls, s.quorum)
			one = append(one, h)
		}
	}
	slices.SortFunc(one, func(a, b lock.Holder) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner, b.Owner))
	})
	return one[:min(len(one), max(size, 1))], agreed
}

// See implements lock.Store.
func (s *Store) See(ctx context.Context, name string) (lock.Sight, error) {
	look := func(ctx context.Context, m *member) (sighted, error) {
		st, err := m.See(ctx, name)
		return sighted{st, !s.quarantined(m)}, err
	}
	sight, err := survey(ctx, s, "look who holds", name, lock.Exclusive, look, s.sight)
	return sight.Sight, err
}

// sighted is what a member sees.
type sighted struct {
	lock.Sight
	votes bool
}

// sight has the holds that members see. A hold is unsure if a majority may see it if others answered. A member that
// does not vote helps to keep a hold, and to give none: what it sees first may be part of an attempt that fails. Such
// an attempt also leaves its fence at some members. All are waited for if none has a hold: it may end at one after the
// other.
func (s *Store) sight(said []sighted) (one sighted, agreed bool) {
	left := map[string][]time.Duration{}
	fences := map[string][]lock.Fence{} // of those that vote
	last := map[string]lock.SeenHold{}
	given := map[lock.Fence]int{}
	tracked, many := 0, 0
	for _, st := range said {
		one.Tried = max(one.Tried, st.Fence)
		if given[st.Fence] += int(oneIf(st.votes)); given[st.Fence] >= s.quorum {
			one.Fence = st.Fence
		}
		if st.Tracked {
			tracked++
		}
		if st.Many {
			many++
		}
		for _, h := range st.Holds {
			h.ID = kinHold(h)
			left[h.ID] = append(left[h.ID], lasting(h.TTL))
			if st.votes {
				fences[h.ID] = append(fences[h.ID], h.Fence)
			}
			last[h.ID] = h
		}
	}
	one.Tracked, one.Many = tracked >= s.quorum, many >= s.quorum
	agreed = many == len(said) || many == 0 && (len(left) > 0 || len(said) == len(s.members))
	for id, ttls := range left {
		agreed = agreed && len(ttls) == len(said)
		if !one.Many {
			h := last[id]
			h.TTL = ofMajority(ttls, s.quorum)
			h.Few = len(ttls)+len(s.members)-len(said) < s.quorum // members that do not answer may have it
			if len(fences[id]) > 0 {
				h.Fence, _ = s.fenceOf(fences[id], 0)
			}
			h.Unsure, h.Rising = len(ttls) < s.quorum || !s.given(fences[id], h.Fence), true
			agreed = agreed && !h.Unsure
			one.Holds = append(one.Holds, h)
		}
	}
	if one.Tried == one.Fence {
		one.Tried = 0
	}
	slices.SortFunc(one.Holds, func(a, b lock.SeenHold) int { return cmp.Compare(a.ID, b.ID) })
	return one, agreed
}

// given says whether so many have a fence that it may have been told (agreed).
func (s *Store) given(fences []lock.Fence, f lock.Fence) bool {
	n := 0
	for _, other := range fences {
		if other == f {
			n++
		}
	}
	return n >= s.quorum
}

// errNoCursor: the cursor is not one of List.
var errNoCursor = &lock.InvalidError{
	Field: "page_token", Reason: lock.ReasonPage,
	Detail: "not a page token of this store",
}

// List implements lock.Store. It reads one member after the other. A name is listed where the first member has it, and
// if a majority has; so it comes once.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	page, next, err := s.list(ctx, prefix, cursor, size)
	if err != nil {
		return nil, "", fmt.Errorf("list %q: %w", prefix, err)
	}
	return page, next, nil
}

func (s *Store) list(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	at, err := s.placeOf(cursor)
	if err != nil {
		return nil, "", err
	}
	found, theirs, err := s.listAt(ctx, at, prefix, size)
	switch {
	case errors.Is(err, lock.ErrInvalid):
		return nil, "", err
	case err != nil:
		if at.failed++; at.failed > len(s.members)-s.quorum {
			return nil, "", errors.Join(lock.ErrNoQuorum, err)
		}
		theirs = ""
	}
	page, err := s.confirmed(ctx, at, found)
	if err != nil {
		return nil, "", err
	}
	if at.theirs = theirs; theirs == "" {
		at.member++
	}
	if at.member == len(s.members) {
		return page, "", nil
	}
	return page, at.String(), nil
}

func (s *Store) listAt(ctx context.Context, at place, prefix string, size int) ([]lock.State, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.CallTimeout, errSlow)
	defer cancel()
	return s.members[at.member].List(ctx, prefix, at.theirs, size)
}

// place is where a list goes on.
type place struct {
	member, failed int
	theirs         string // the cursor of the member
}

func (p place) String() string { return fmt.Sprintf("member %d %d %s", p.member, p.failed, p.theirs) }

func (s *Store) placeOf(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	n, err := fmt.Sscanf(cursor, "member %d %d ", &p.member, &p.failed)
	if err != nil || n != 2 || p.member < 0 || p.member >= len(s.members) || p.failed < 0 {
		return place{}, errNoCursor
	}
	head := place{member: p.member, failed: p.failed}.String()
	if len(cursor) < len(head) || cursor[:len(head)] != head {
		return place{}, errNoCursor
	}
	p.theirs = cursor[len(head):]
	return p, nil
}

// confirming bounds the names of a page that are looked at at once.
const confirming = 32

// confirmed are the names of a page that a majority holds and no member before has.
func (s *Store) confirmed(ctx context.Context, at place, found []lock.State) (page []lock.State, err error) {
	states := make([]lock.State, len(found))
	errs := make([]error, len(found))
	for from := 0; from < len(found); from += confirming {
		var all sync.WaitGroup
		for i := from; i < min(from+confirming, len(found)); i++ {
			all.Go(func() { states[i], errs[i] = s.confirm(ctx, at, found[i].Name) })
		}
		all.Wait()
	}
	for i, st := range states {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if st.Held {
			page = append(page, st)
		}
	}
	return page, nil
}

// confirm looks at a name that was found at a member.
func (s *Store) confirm(ctx context.Context, at place, name string) (lock.State, error) {
	one, err := survey(ctx, s, "look at", name, lock.Exclusive, looking(name), func(said []seen) (seen, bool) {
		earlier := func(st seen) bool { return st.from.number < at.member && st.Held }
		one, agreed := s.state(said)
		one.Held = one.Held && !slices.ContainsFunc(said, earlier)
		return one, agreed && len(said) == len(s.members)
	})
	if errors.Is(err, lock.ErrKindMismatch) {
		return lock.State{}, nil
	}
	return one.State, err
}
