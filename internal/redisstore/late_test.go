package redisstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

// A grant that too few replicas had is released, and the release comes late: after the owner has asked again. It ends
// no hold that the owner was told of.
func TestALateReleaseOfAnUnreplicatedGrantEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			master, replica, cfg := withReplica(t)
			late := new(redistest.Late)
			cfg.Hook = late
			s := open(t, cfg)
			acquire(t, s, claim("warm", "o"))
			replica.Pause()
			late.Hold(redistest.Calls(releases(s)...))
			c := kindClaim(kind, "n", "o")
			_, err := s.Acquire(t.Context(), c)
			wantErr(t, err, lock.ErrOutcomeUnknown)
			late.Hold(nil)
			replica.Resume()

			tellLate(t, s, c, func() int { return late.Run(t.Context(), master.Client()) }, func() error {
				_, err := s.Acquire(t.Context(), c)
				return err
			})
		})
	}
}

// A release of permits compares no fence, so while it may come late the owner is told of none.
func TestPermitsThatMayBeReleasedLateAreNotTold(t *testing.T) {
	t.Parallel()
	_, replica, cfg := withReplica(t)
	late := new(redistest.Late)
	cfg.Hook = late
	s := open(t, cfg)
	replica.Pause()
	late.Hold(redistest.Calls(releases(s)...))
	c := permitsClaim("n", "o", 2, 3)
	_, err := s.Acquire(t.Context(), c)
	wantErr(t, err, lock.ErrOutcomeUnknown)
	late.Hold(nil)
	replica.Resume()
	until(t, "given back", func() error {
		_, err := s.Acquire(t.Context(), c)
		if err == nil {
			t.Fatal("the owner was told of permits that may be released yet")
		}
		if !errors.Is(err, ErrAbandoned) || errors.Is(err, lock.ErrOutcomeUnknown) {
			return err
		}
		return nil
	})
	until(t, "others get them", func() error {
		_,
			err := s.Acquire(t.Context(), permitsClaim("n", "p", 3, 3))
		return err
	})
}

// The same of a hand-over.
func TestALateReleaseOfAnUnreplicatedHandOverEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	master, replica, cfg := withReplica(t)
	late := new(redistest.Late)
	cfg.Hook = late
	s := open(t, cfg)
	r := giveBack("n", "o", acquire(t, s, claim("n", "o")).Fence)
	r.Next = &lock.Successor{Owner: whole("heir"), TTL: lease}
	replica.Pause()
	late.Hold(func(args []any) bool { return redistest.Calls(releases(s)...)(args) && !says(args, "heir", r.Owner) })
	_, err := s.Release(t.Context(), r)
	wantErr(t, err, lock.ErrOutcomeUnknown)
	late.Hold(nil)
	replica.Resume()

	heir := claim("n", "heir")
	tellLate(t, s, heir, func() int { return late.Run(t.Context(), master.Client()) }, func() error {
		if res, err := s.Release(t.Context(), r); err == nil && res.HandedOver != 0 {
			return nil // the repetition
		}
		_, err := s.Acquire(t.Context(), heir)
		return err
	})
}

// tellLate tries until a claim is told as granted, executes what is late, and checks that the hold is there.
func tellLate(t *testing.T, s *Store, c lock.Claim, run func() int, try func() error) {
	t.Helper()
	until(t, "granted", func() error {
		err := try()
		if err != nil && !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		return err
	})
	if run() == 0 {
		t.Error("nothing came late")
	}
	if st, err := s.Look(t.Context(), c.Name); err != nil || !st.Held {
		t.Errorf("after the late release: got %+v, %v, want it held", st, err)
	}
}

// releases are the scripts that end a hold.
func releases(s *Store) []string {
	all := s.Scripts
	return []string{
		all.Release.SHA, all.ReleaseFair.SHA, all.ReleaseRead.SHA, all.ReleaseWrite.SHA,
		all.ReleasePermits.SHA, all.Many.SHA,
	}
}

// says says whether the words of a command are among its arguments.
func says(args []any, words ...any) bool {
	found := 0
	for _, word := range words {
		for _, arg := range args {
			if p, ok := arg.(*string); ok && *p == fmt.Sprint(word) || fmt.Sprint(arg) == fmt.Sprint(word) {
				found++
				break
			}
		}
	}
	return found == len(words)
}

// So is one of several read holds: a late release would end the next one with its number.
func TestANestedReadThatMayBeReleasedLateIsNotTold(t *testing.T) {
	t.Parallel()
	_, replica, cfg := withReplica(t)
	late := new(redistest.Late)
	cfg.Hook = late
	s := open(t, cfg)
	c := kindClaim(lock.Read, "n", "o")
	c.Fence = acquire(t, s, c).Fence
	c.Count = 2
	replica.Pause()
	late.Hold(redistest.Calls(releases(s)...))
	_, err := s.Acquire(t.Context(), c)
	wantErr(t, err, lock.ErrOutcomeUnknown)
	late.Hold(nil)
	replica.Resume()
	until(t, "given back", func() error {
		_, err := s.Acquire(t.Context(), c)
		if err == nil {
			t.Fatal("the owner was told of a hold that may be released yet")
		}
		if !errors.Is(err, ErrAbandoned) || errors.Is(err, lock.ErrOutcomeUnknown) {
			return err
		}
		return nil
	})
	if hs, err := s.Holders(t.Context(), "n", 10); err != nil || len(hs) != 1 || hs[0].Count != 1 {
		t.Errorf("got %+v, %v, want the first hold", hs, err)
	}
}
