package e2e

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// durable are the arguments of a master that has every write on its disk.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// startRedlock starts a lockd over several masters.
func startRedlock(t *testing.T, masters []*redistest.Server, env ...string) *harness.Lockd {
	t.Helper()
	return startOver(t, redistest.Addrs(masters), env...)
}

// Two of five masters are killed and nobody notices. With three gone, who asks is told so, and who holds is told until
// when.
func TestMastersAreKilledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	masters := redistest.StartMasters(t, 5, durable...)
	d := startRedlock(t, masters, "LOCKD_SESSION_TTL="+ttl.String())
	var seen statuses
	c := d.Dial(t, client.WithOnStatus(seen.add))
	var held []*client.Lock
	for i := range 20 {
		held = append(held, mustLock(t, c, fmt.Sprint("job ", i)))
	}
	for _, m := range masters[:2] {
		m.Kill()
	}
	for end := time.Now().Add(ttl + 2*time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		mustUnlock(t, mustLock(t, c, "meanwhile"))
	}
	for _, l := range held {
		if l.Err() != nil {
			t.Errorf("with three of five masters %s is lost: %v", l.Name(), l.Err())
		}
	}
	if states := seen.list(); slices.Contains(states, client.AtRisk) {
		t.Errorf("with three of five masters: %v", states)
	}

	masters[2].Kill()
	harness.Until(t, "told that locks are at risk", func() bool { return slices.Contains(seen.list(), client.AtRisk) })
	_, err := c.TryLock(t.Context(), "in vain")
	if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "majority") {
		t.Errorf("got %v, want that there is no majority", err)
	}
	for _, l := range held {
		harness.Soon(t, "the loss is told", l.Lost())
	}

	for _, m := range masters[:3] {
		m.Restart()
	}
	harness.Until(t, "locks are granted again", func() bool {
		l, err := c.TryLock(t.Context(), "job 0")
		return err == nil && l.Unlock(t.Context()) == nil
	})
}

// Masters that are restarted without their data, one after the other, do not take a lock from its holder.
func TestMastersAreRestartedEmptyOneAfterTheOther(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	masters := redistest.StartMasters(t, 5)
	d := startRedlock(t, masters, "LOCKD_SESSION_TTL=3s", "LOCKD_REDLOCK_QUARANTINE=3s")
	c := d.Dial(t)
	l := mustLock(t, c, "job")
	for _, m := range masters {
		m.Kill()
		m.Restart()
		rc := m.Client()
		harness.Until(t, "the lock is put back", func() bool { return len(look(t, rc, "job").fields) == 1 })
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
	other := d.Dial(t)
	if _, err := other.TryLock(t.Context(), "job"); !errors.Is(err, client.ErrHeld) {
		t.Errorf("got %v, want that it is held", err)
	}
	mustUnlock(t, l)
	var next *client.Lock
	harness.Until(t, "enough masters vote again", func() (ok bool) {
		var err error
		next, err = other.TryLock(t.Context(), "job")
		return err == nil
	})
	if next.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), l.Fence())
	}
}

// membersShown is what inspect says. It waits for a majority, so some may be missing.
var membersShown = regexp.MustCompile(`"members":[345],`)

// Kinds that a majority cannot decide are refused, with a reason.
func TestAMajorityRefusesWhatItCannotDecide(t *testing.T) {
	t.Parallel()
	d := startRedlock(t, redistest.StartMasters(t, 5))
	c := d.Dial(t)
	for _, opt := range []client.LockOption{client.As(client.Fair), client.Permits(1, 2)} {
		_, err := c.Lock(t.Context(), "job", opt)
		if err == nil || !strings.Contains(err.Error(), "KIND_UNSUPPORTED") {
			t.Errorf("got %v, want KIND_UNSUPPORTED", err)
		}
	}
	mustLock(t, c, "job")
	p := startLockctl(d, "inspect", "job", "-o", "json")
	if code := p.Code(); code != 0 || !membersShown.MatchString(p.Stdout.String()) {
		t.Errorf("got %d and %s, want it held on 3 to 5 members", code, p.Stdout.String())
	}
}

// A master that comes back empty has forgotten a hold. It does not help another client to a second majority; without a
// quarantine it does, which shows that this test can fail. Nobody renews the hold, and the replica that took it is
// gone, so nothing puts it back.
func TestAMasterThatForgotDoesNotVote(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for quarantine, wantHeld := range map[string]bool{"30s": true, "0s": false} {
		t.Run(quarantine, func(t *testing.T) {
			t.Parallel()
			masters := redistest.StartMasters(t, 5, durable...)
			forgetful, others := masters[0], masters[3:]
			first := startRedlock(t, masters, "LOCKD_REDLOCK_QUARANTINE="+quarantine)
			c := first.Dial(t)
			mustUnlock(t, mustLock(t, c, "first")) // all masters vote by now, and have what vouches for their data
			for _, m := range others {
				m.Kill()
			}
			mustLock(t, c, "job", client.Lease(20*time.Second))
			first.Kill()
			forgetful.Kill()
			forgetful.RestartEmpty()
			for _, m := range others {
				m.Restart()
			}
			d := startRedlock(t, masters, "LOCKD_REDLOCK_QUARANTINE="+quarantine)
			harness.Until(t, "all masters are there", func() bool { return membersUp(d) == len(masters) })
			l, err := d.Dial(t).TryLock(t.Context(), "job")
			if held := err != nil; held != wantHeld {
				t.Errorf("got %v and %v, want it refused: %t", l, err, wantHeld)
			}
		})
	}
}

// membersUp is how many members answered the last probe.
func membersUp(d *harness.Lockd) (n int) {
	_, body := d.Get("/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "lockd_redlock_member_up{") && strings.HasSuffix(strings.TrimSpace(line), " 1") {
			n++
		}
	}
	return n
}
