package redisstore

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/settle"
)

// settled is a Store as lockd uses it.
func settled(t testing.TB, s lock.Store) *settle.Store {
	t.Helper()
	is, err := settle.New(s, settle.Config{}, zaptest.NewLogger(t), nil)
	must(t, err)
	t.Cleanup(is.Close)
	return is
}

// A grant that too few replicas had is released, and the release comes late: after the owner has asked again. It ends
// no hold that the owner was told of. While the machine stands still it is not known whether it was granted, so some
// tries may show nothing.
func TestALateReleaseOfAnUnreplicatedGrantEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			master, replica, cfg := withReplica(t)
			p := redistest.StartProxy(t, master.Addr)
			cfg.Addr, cfg.OpTimeout = p.Addr, time.Second
			l := lateRelease{raw: open(t, cfg), direct: open(t, quick(master)), replica: replica, way: p}
			l.s = settled(t, l.raw)
			var err error
			for try := range 5 {
				if err = l.happens(t, usual(kind, fmt.Sprint("n", try), "o")); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// lateRelease is what has a release come late.
type lateRelease struct {
	raw, direct *Store // by the way, and not
	s           *settle.Store
	replica     *redistest.Server
	way         *redistest.Proxy
}

// happens fails if the hold does not outlive the release. It is an error if none is late.
func (l *lateRelease) happens(t *testing.T, c lock.Claim) error {
	until(t, "acquire", func() error { return attempt(t, l.raw, claim("warm", "o")) })
	all := l.raw.Scripts
	shas := []string{
		all.Release.SHA, all.ReleaseFair.SHA, all.ReleaseRead.SHA, all.ReleaseWrite.SHA, all.ReleasePermits.SHA,
	}
	var holding atomic.Bool
	holding.Store(true)
	l.way.Hold(func(request []byte) bool {
		return holding.Load() && slices.ContainsFunc(shas, func(sha string) bool {
			return bytes.Contains(request, []byte(sha))
		})
	})
	l.replica.Pause()
	err := attempt(t, l.s, c)
	held := l.way.Held()
	l.replica.Resume()
	holding.Store(false)
	until(t, "granted", func() error {
		_, err := lock.Await(t.Context(), l.s.StartAcquire, c)
		if err != nil && !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		return err
	})
	l.way.Deliver()
	for range 20 { // what was delivered is read then
		acquire(t, l.direct, claim("passed", "o"))
	}
	wantHeld(t, l.direct, c.Name, true)
	if held == 0 || !errors.Is(err, lock.ErrNotReplicated) {
		return fmt.Errorf("%d releases are late, and the grant is told %w", held, err)
	}
	return nil
}
