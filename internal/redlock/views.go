package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// survey asks all members for a view. merge makes one view of their answers; agreed says that more answers would not
// change it. Without a majority of answers survey fails.
func survey[T any](ctx context.Context, s *Store, what, name string, kind lock.Kind,
	read func(context.Context, *member) (T, error), merge func([]vote[T]) (one T, agreed bool),
) (T, error) {
	return question[T]{
		what: what, name: name, kind: kind, ask: read, quiet: true,
		verdict: func(b *ballot[T], last bool) (none T, over bool, err error) {
			said := b.saidLocked()
			if err := b.preventingLocked(lock.ErrKindMismatch, lock.ErrInvalid); err != nil {
				return none, true, err
			}
			if len(said) >= s.quorum {
				if one, agreed := merge(said); agreed || last {
					return one, true, nil
				}
			}
			if mismatch := b.refusalsLocked(lock.ErrKindMismatch); mismatch > 0 && mismatch+len(said) >= s.quorum {
				return none, last, b.firstLocked(lock.ErrKindMismatch)
			}
			return none, last, lock.ErrNoQuorum
		},
	}.put(ctx, s)
}

// saidLocked are the votes without an error.
func (b *ballot[T]) saidLocked() []vote[T] {
	return slices.DeleteFunc(slices.Clone(b.votes), func(v vote[T]) bool { return !v.yes() })
}

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	return s.look(ctx, name, s.state)
}

func (s *Store) look(ctx context.Context, name string, merge func([]vote[lock.State]) (lock.State, bool)) (lock.State,
	error,
) {
	read := func(ctx context.Context, m *member) (lock.State, error) { return m.Look(ctx, name) }
	return survey(ctx, s, "look at", name, lock.Exclusive, read, merge)
}

// whose is the part of a state that must be equal at a majority. Of several readers members may name different ones.
func whose(v vote[lock.State]) lock.State {
	st := v.v
	switch {
	case !st.Held:
		return lock.State{}
	case st.Kind == lock.Read:
		return lock.State{Held: true, Kind: st.Kind}
	}
	return lock.State{Held: true, Kind: st.Kind, Owner: commonOwner(st.Owner)}
}

// state is what a majority says of a name. If no majority agrees, nobody holds the name.
func (s *Store) state(said []vote[lock.State]) (one lock.State, agreed bool) {
	var same []vote[lock.State]
	for _, like := range grouped(said, whose) {
		if len(like) >= s.quorum {
			same = like
		}
	}
	if same == nil {
		one.Name = said[0].v.Name
		for _, v := range said {
			one.Fence = max(one.Fence, v.v.Fence)
		}
		return one, false
	}
	one = same[0].v
	left := make([]time.Duration, 0, len(same))
	fences := make([]lock.Fence, 0, len(same))
	for _, v := range same {
		st := v.v
		one.Fence, one.Count, one.Holders = max(one.Fence, st.Fence), max(one.Count, st.Count), max(one.Holders, st.Holders)
		one.Owner = min(one.Owner, st.Owner)
		left = append(left, lasting(st.TTL))
		if !s.quarantined(v.from) { // else a late command may have given it the hold again, after it lost its data
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

// fenceOf is the greatest fence of a hold that a majority of the members has reached. A member may have a greater one,
// or a smaller one that is about to be raised. final says that the fences of missing other members would not change the
// result. (They did not answer, or may have lost the hold.)
func (s *Store) fenceOf(fences []lock.Fence, missing int) (f lock.Fence, final bool) {
	slices.Sort(fences)
	f = fences[max(len(fences)-s.quorum, 0)]
	above, _ := slices.BinarySearch(fences, f+1)
	return f, len(fences)-above+missing < s.quorum
}

// lasting is a remaining time that can be compared: NoTTL is the longest.
func lasting(ttl time.Duration) time.Duration {
	if ttl == lock.NoTTL {
		return math.MaxInt64
	}
	return ttl
}

// ofMajority is for how long quorum members have something, by our clock.
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
		func(said []vote[[]lock.Holder]) ([]lock.Holder, bool) { return s.holders(said, size) })
}

// holders are those that a majority names. If a member has as many as were asked for, members may name different ones,
// so all are taken.
func (s *Store) holders(said []vote[[]lock.Holder], size int) (one []lock.Holder, agreed bool) {
	type key struct {
		o lock.Owner
		k lock.Kind
	}
	need, agreed := s.quorum, true
	var all []lock.Holder
	for _, v := range said {
		if all = append(all, v.v...); len(v.v) == max(size, 1) {
			need = 1
		}
	}
	for _, hs := range grouped(all, func(h lock.Holder) key {
		if h.Kind != lock.Read { // as in commonHoldID
			return key{commonOwner(h.Owner), h.Kind}
		}
		return key{h.Owner, h.Kind}
	}) {
		agreed = agreed && len(hs) == len(said)
		if len(hs) < need {
			continue
		}
		h, left := hs[len(hs)-1], make([]time.Duration, 0, len(hs))
		for _, other := range hs {
			h.Owner, h.Count = min(h.Owner, other.Owner), max(h.Count, other.Count)
			left = append(left, lasting(other.TTL))
		}
		h.TTL = ofMajority(left, s.quorum)
		one = append(one, h)
	}
	slices.SortFunc(one, func(a, b lock.Holder) int {
		return cmp.Or(-cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Owner, b.Owner))
	})
	return one[:min(len(one), max(size, 1))], agreed
}

// See implements lock.Store.
func (s *Store) See(ctx context.Context, name string) (lock.Seen, error) {
	read := func(ctx context.Context, m *member) (lock.Seen, error) { return m.See(ctx, name) }
	return survey(ctx, s, "look who holds", name, lock.Exclusive, read, s.seen)
}

// seen has the holds that members see. A hold is Unsure unless a majority sees it with the same fence. A quarantined
// member counts for whether a hold is there, not for its fence, because what it sees may be part of an attempt that
// fails. Such an attempt also leaves its fence at some members. If no member has a hold, all answers are awaited,
// because a hold ends at one member after the other.
func (s *Store) seen(said []vote[lock.Seen]) (one lock.Seen, agreed bool) {
	type hold struct {
		lock.SeenHold
		votes bool
	}
	var holds []hold
	var fences []lock.Fence // of those that vote
	tracked, many := 0, 0
	for _, v := range said {
		st, votes := v.v, !s.quarantined(v.from)
		one.Tried = max(one.Tried, st.Fence)
		if votes {
			fences = append(fences, st.Fence)
		}
		tracked, many = tracked+count(st.Tracked), many+count(st.Many)
		for _, h := range st.Holds {
			h.ID = commonHoldID(h)
			holds = append(holds, hold{h, votes})
		}
	}
	if f, n := commonest(fences); n >= s.quorum {
		one.Fence = f
	}
	one.Tracked, one.Many = tracked >= s.quorum, many >= s.quorum
	agreed = many == len(said) || many == 0 && (len(holds) > 0 || len(said) == len(s.members))
	for _, hs := range grouped(holds, func(h hold) string { return h.ID }) {
		agreed = agreed && len(hs) == len(said)
		if one.Many {
			continue
		}
		h, left, fences := hs[len(hs)-1].SeenHold, make([]time.Duration, 0, len(hs)), []lock.Fence(nil)
		for _, other := range hs {
			left = append(left, lasting(other.TTL))
			if other.votes {
				fences = append(fences, other.Fence)
			}
		}
		h.TTL = ofMajority(left, s.quorum)
		h.Few = len(hs)+len(s.members)-len(said) < s.quorum // members that do not answer may have it
		if len(fences) > 0 {
			h.Fence, _ = s.fenceOf(fences, 0)
		}
		told, n := commonest(fences) // it may have been told (agreed)
		h.Unsure, h.Rising = len(hs) < s.quorum || told != h.Fence || n < s.quorum, true
		agreed = agreed && !h.Unsure
		one.Holds = append(one.Holds, h)
	}
	if one.Tried == one.Fence {
		one.Tried = 0
	}
	slices.SortFunc(one.Holds, func(a, b lock.SeenHold) int { return cmp.Compare(a.ID, b.ID) })
	return one, agreed
}

func grouped[T any, K comparable](all []T, key func(T) K) map[K][]T {
	groups := make(map[K][]T)
	for _, v := range all {
		k := key(v)
		groups[k] = append(groups[k], v)
	}
	return groups
}

// commonest is the fence that occurs most often in fences, and how often.
func commonest(fences []lock.Fence) (f lock.Fence, n int) {
	for _, one := range fences {
		times := 0
		for _, other := range fences {
			times += count(other == one)
		}
		if times > n {
			f, n = one, times
		}
	}
	return f, n
}

// List implements lock.Store. It lists one member after the other. A name that a majority holds is listed with the
// first member that has it, so it comes once.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	page, next, err := s.list(ctx, prefix, cursor, size)
	return page, next, about("list", prefix, err)
}

func (s *Store) list(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	at, err := s.placeOf(cursor)
	if err != nil {
		return nil, "", err
	}
	there, cancel := context.WithTimeoutCause(ctx, s.cfg.CallTimeout, errSlow)
	defer cancel()
	found, theirs, err := s.members[at.member].List(there, prefix, at.theirs, size)
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

// place is where a list goes on. failed counts members that were away.
type place struct {
	member, failed int
	theirs         string // the cursor of the member
}

func (p place) String() string { return fmt.Sprintf("member %d %d %s", p.member, p.failed, p.theirs) }

func (s *Store) placeOf(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	_, err = fmt.Sscanf(cursor, "member %d %d ", &p.member, &p.failed)
	theirs, ours := strings.CutPrefix(cursor, p.String())
	if err != nil || !ours || p.member < 0 || p.member >= len(s.members) || p.failed < 0 {
		return place{}, lock.Invalid("page_token", lock.ReasonPage, "not a page token of this store")
	}
	p.theirs = theirs
	return p, nil
}

// confirming bounds how many names of a page are looked at at the same time.
const confirming = 32

// confirmed are the names of a page that a majority holds, without those that an earlier member has.
func (s *Store) confirmed(ctx context.Context, at place, found []lock.State) (page []lock.State, err error) {
	for some := range slices.Chunk(found, confirming) {
		states, errs := make([]lock.State, len(some)), make([]error, len(some))
		var all sync.WaitGroup
		for i, st := range some {
			all.Go(func() { states[i], errs[i] = s.confirm(ctx, at, st.Name) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		page = append(page, slices.DeleteFunc(states, func(st lock.State) bool { return !st.Held })...)
	}
	return page, nil
}

// confirm looks at a name that a member listed. Held is false if the name is not to be listed.
func (s *Store) confirm(ctx context.Context, at place, name string) (lock.State, error) {
	one, err := s.look(ctx, name, func(said []vote[lock.State]) (lock.State, bool) {
		earlier := func(v vote[lock.State]) bool { return v.from.number < at.member && v.v.Held }
		one, agreed := s.state(said)
		one.Held = one.Held && !slices.ContainsFunc(said, earlier)
		return one, agreed && len(said) == len(s.members)
	})
	if errors.Is(err, lock.ErrKindMismatch) {
		return lock.State{}, nil
	}
	return one, err
}
