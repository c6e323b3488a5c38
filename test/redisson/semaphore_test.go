package redisson

import (
	"errors"
	"testing"

	"github.com/lockd-io/lockd/client"
)

// permits are some of a semaphore that has so many; 0 is whatever was set.
func permits(n, limit uint32) kind {
	return kind{name: "semaphore", opts: []client.LockOption{client.Permits(n, limit)}}
}

func TestLimitsSetByEitherSideAreSeenByTheOther(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	c, r := s.lockd.Dial(s.t), s.redisson.worker("main")

	r.want(true, "limit", "semaphore", "theirs", 5)
	if _, err := c.TryLock(t.Context(), "theirs", client.Permits(1, 5)); client.Reason(err) != "LOCK_CONFIG_MISMATCH" {
		t.Errorf("lockd: got %v of a number that may be anybody's, want it left alone", err)
	}
	r.ask("acquire", "semaphore", "theirs", 0) // now it is known whose it is
	if st := s.get("theirs"); st.GetLimit() != 5 || st.GetHolders() != 1 {
		t.Errorf("lockd: got %v, want a permit of 5 out", st)
	}
	r.ask("release", "semaphore", "theirs")
	s.theirs("theirs", 5)
	l := s.lock(c, permits(2, 0), "theirs")
	if st := s.get("theirs"); st.GetLimit() != 5 || st.GetHolders() != 2 {
		t.Errorf("lockd: got %v, want 2 permits of 5 out", st)
	}
	r.want(3, "available", "semaphore", "theirs")
	if _, err := c.TryLock(t.Context(), "theirs", client.Permits(1, 3)); !isLimit(err, 5) {
		t.Errorf("lockd: got %v, want it to say that the limit is 5", err)
	}
	s.unlock(l)
	r.want(5, "available", "semaphore", "theirs")

	if _, err := c.TryLock(t.Context(), "ours", client.Permits(1, 0)); !isLimit(err, 0) {
		t.Errorf("lockd: got %v, want it to say that there is no limit", err)
	}
	l = s.lock(c, permits(2, 5), "ours")
	r.want(5, "permits", "semaphore", "ours")
	r.want(3, "available", "semaphore", "ours")
	r.want(2, "acquired", "semaphore", "ours")
	r.want(false, "limit", "semaphore", "ours", 7)
	s.unlock(l)
	r.want(5, "available", "semaphore", "ours")
	r.want(0, "acquired", "semaphore", "ours")
}

func isLimit(err error, want uint32) bool {
	limit, ok := errors.AsType[*client.LimitError](err)
	return ok && limit.Limit == want
}

func TestPermitsOfBothSidesCountTogether(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	c, r := s.lockd.Dial(s.t), s.redisson.worker("main")
	s.theirs("pool", 4)
	one := s.lock(c, permits(1, 4), "pool")
	r.want(true, "try", "semaphore", "pool", 0, 0, 2)
	r.want(1, "available", "semaphore", "pool")
	if _, err := c.TryLock(t.Context(), "pool", client.Permits(2, 4)); !errors.Is(err, client.ErrHeld) {
		t.Errorf("lockd: got %v for 2 permits of which 1 is left, want it held", err)
	}
	r.want(false, "try", "semaphore", "pool", 0, 0, 2)
	rest := s.lock(c, permits(1, 4), "pool")
	r.want(false, "try", "semaphore", "pool", 0, 0, 1)
	if st := s.get("pool"); st.GetLimit() != 4 || st.GetHolders() != 4 {
		t.Errorf("lockd: got %v, want all 4 permits out", st)
	}

	patient := s.redisson.worker("patient")
	both := patient.tell("acquire", "semaphore", "pool", 0, 2)
	patient.waits()
	s.unlock(one)
	hesitate()
	if both.answered() {
		t.Error("Redisson has 2 permits of which 1 was free")
	}
	s.unlock(rest)
	both.must()
	r.ask("release", "semaphore", "pool")
	r.want(2, "available", "semaphore", "pool")
}

// A limit that lockd changes is the limit of Redisson as well, also while more permits are out than there are any more.
func TestALimitThatLockdChangesIsSeenByRedisson(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	c, r := s.lockd.Dial(s.t), s.redisson.worker("main")
	limit := func(n, want uint32) {
		t.Helper()
		if previous, err := c.SetLimit(t.Context(), "pool", n); err != nil || previous != want {
			t.Errorf("limit %d: got %d, %v, want %d before", n, previous, err, want)
		}
	}
	s.theirs("pool", 3)
	l := s.lock(c, permits(2, 0), "pool")
	r.want(true, "try", "semaphore", "pool", 0, 0, 1)

	limit(1, 3)
	r.want(-2, "available", "semaphore", "pool")
	r.want(3, "acquired", "semaphore", "pool")
	r.want(1, "permits", "semaphore", "pool")
	r.want(false, "try", "semaphore", "pool", 0, 0, 1)
	s.unlock(l)
	r.want(0, "available", "semaphore", "pool")
	if _, err := c.TryLock(t.Context(), "pool", client.Permits(1, 1)); !errors.Is(err, client.ErrHeld) {
		t.Errorf("lockd: got %v with all permits out, want it held", err)
	}

	patient := s.redisson.worker("patient")
	one := patient.tell("acquire", "semaphore", "pool", 0, 1)
	patient.waits()
	limit(2, 1)
	one.must()
	r.want(0, "available", "semaphore", "pool")

	ours := s.wait(c, permits(1, 0), "pool")
	s.waiting("pool", 1)
	limit(3, 2)
	l = s.soon(ours)
	if st := s.get("pool"); st.GetLimit() != 3 || st.GetHolders() != 3 {
		t.Errorf("lockd: got %v, want all 3 permits out", st)
	}
	s.unlock(l)
	r.ask("release", "semaphore", "pool")
	patient.ask("release", "semaphore", "pool")
	r.want(3, "available", "semaphore", "pool")
}

// What a holder releases of its permits Redisson can have, and no more.
func TestPermitsThatAreNotKeptGoToRedisson(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	c, patient := s.lockd.Dial(s.t), s.redisson.worker("patient")
	l := s.lock(c, permits(3, 3), "pool")
	two := patient.tell("acquire", "semaphore", "pool", 0, 2)
	patient.waits()
	for range 2 {
		if left, err := l.KeepPermits(t.Context(), 1); err != nil || left != 1 {
			t.Errorf("%d left, %v", left, err)
		}
	}
	two.must()
	r := s.redisson.worker("main")
	r.want(0, "available", "semaphore", "pool")
	s.unlock(l)
	r.want(1, "available", "semaphore", "pool")
}
