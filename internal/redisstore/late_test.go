package redisstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

// lateReleases is a Store whose replica is silent. The releases of grants that are not replicated come late, but for
// those of hand-overs, if there are any.
func lateReleases(t *testing.T, before func(s *Store), handOver ...any) (s *Store, resume func(), late func() int) {
	t.Helper()
	master, replica, cfg := withReplica(t)
	hook := new(redistest.Late)
	cfg.Hook = hook
	s = open(t, cfg)
	before(s)
	replica.Pause()
	all := s.Scripts
	releases := redistest.Calls(all.Release.SHA, all.ReleaseFair.SHA, all.ReleaseRead.SHA, all.ReleaseWrite.SHA,
		all.ReleasePermits.SHA, all.Many.SHA)
	hook.Hold(func(args []any) bool { return releases(args) && (len(handOver) == 0 || !says(args, handOver...)) })
	return s, func() { hook.Hold(nil); replica.Resume() }, func() int { return hook.Run(t.Context(), master.Client()) }
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

// A grant that too few replicas had is released, and the release comes late: after the owner has asked again. It ends
// no hold that the owner was told of.
func TestALateReleaseOfAnUnreplicatedGrantEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			s, resume, late := lateReleases(t, func(s *Store) { acquire(t, s, claim("warm", "o")) })
			c := kindClaim(kind, "n", "o")
			try := func() error { _, err := s.Acquire(t.Context(), c); return err }
			wantErr(t, try(), lock.ErrOutcomeUnknown)
			resume()
			tellLate(t, s, late, try)
		})
	}
	t.Run("hand-over", func(t *testing.T) {
		t.Parallel()
		r := handingOver(giveBack("n", "o", 0), "successor")
		s, resume, late := lateReleases(t, func(s *Store) { r.Fence = acquire(t, s, claim("n", "o")).Fence },
			whole("successor"), r.Owner)
		_, err := s.Release(t.Context(), r)
		wantErr(t, err, lock.ErrOutcomeUnknown)
		resume()
		tellLate(t, s, late, func() error {
			if res, err := s.Release(t.Context(), r); err == nil && res.HandedOver != 0 {
				return nil // the repetition
			}
			_, err := s.Acquire(t.Context(), claim("n", "successor"))
			return err
		})
	})
}

// tellLate tries until a claim of n is told as granted, executes what is late, and checks that the hold is there.
func tellLate(t *testing.T, s *Store, late func() int, try func() error) {
	t.Helper()
	until(t, "granted", func() error {
		err := try()
		if err != nil && !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		return err
	})
	if late() == 0 {
		t.Error("nothing came late")
	}
	wantHeld(t, s, "n", true)
}

// A release of permits compares no fence. So while it may come late the owner is told of none.
func TestPermitsThatMayBeReleasedLateAreNotTold(t *testing.T) {
	t.Parallel()
	s, resume, _ := lateReleases(t, func(*Store) {})
	c := permitsClaim("n", "o", 2, 3)
	_, err := s.Acquire(t.Context(), c)
	wantErr(t, err, lock.ErrOutcomeUnknown)
	resume()
	until(t, "undone", func() error {
		_, err := s.Acquire(t.Context(), c)
		if err == nil {
			t.Fatal("the owner was told of what may be released yet")
		}
		if !errors.Is(err, ErrAbandoned) || errors.Is(err, lock.ErrOutcomeUnknown) {
			return err
		}
		return nil
	})
	until(t, "others get them", func() error {
		_, err := s.Acquire(t.Context(), permitsClaim("n", "p", 3, 3))
		return err
	})
}
