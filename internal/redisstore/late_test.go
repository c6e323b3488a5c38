package redisstore

import (
	"bytes"
	"errors"
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
// no hold that the owner was told of.
func TestALateReleaseOfAnUnreplicatedGrantEndsNoLaterHold(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			master, replica, cfg := withReplica(t)
			p := redistest.StartProxy(t, master.Addr)
			cfg.Addr, cfg.OpTimeout = p.Addr, time.Second
			raw := open(t, cfg)
			s := settled(t, raw)
			until(t, "acquire", func() error { return attempt(t, raw, claim("warm", "o")) })
			all := raw.Scripts
			shas := []string{
				all.Release.SHA, all.ReleaseFair.SHA, all.ReleaseRead.SHA, all.ReleaseWrite.SHA, all.ReleasePermits.SHA,
			}
			var holding atomic.Bool
			holding.Store(true)
			p.Hold(func(request []byte) bool {
				return holding.Load() && slices.ContainsFunc(shas, func(sha string) bool {
					return bytes.Contains(request, []byte(sha))
				})
			})
			replica.Pause()
			c := usual(kind, "n", "o")
			wantErr(t, attempt(t, s, c), lock.ErrNotReplicated)
			if p.Held() == 0 {
				t.Error("no release is late")
			}
			replica.Resume()
			holding.Store(false)
			until(t, "granted", func() error {
				_, err := lock.Await(t.Context(), s.StartAcquire, c)
				if err != nil && !errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				return err
			})
			p.Deliver()
			for range 20 {
				acquire(t, raw, claim("warm", "o"))
			}
			wantHeld(t, raw, "n", true)
		})
	}
}
