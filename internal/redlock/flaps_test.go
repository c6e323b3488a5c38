package redlock

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/watching"
)

// flap is a node whose connection for messages comes and goes.
type flap struct {
	*node

	mu   sync.Mutex // guards the fields below
	mute bool       // nothing is heard, whether or not that is known
	ears []func(lock.Notice)
}

// Watch has ears that hear nothing while it is mute.
func (f *flap) Watch(name string, notify func(lock.Notice)) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ears = append(f.ears, notify)
	return f.node.Store.Watch(name, func(n lock.Notice) {
		f.mu.Lock()
		mute := f.mute
		f.mu.Unlock()
		if !mute {
			notify(n)
		}
	})
}

// See meets its fate, other than that of a node.
func (f *flap) See(ctx context.Context, name string) (lock.Sight, error) {
	return meet(ctx, f.node, "see", func() (lock.Sight, error) { return f.Store.See(context.Background(), name) })
}

// silence loses messages from now on, or does so no more.
func (f *flap) silence(mute bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute = mute
}

// says tells those who watch what is known of the connection.
func (f *flap) says(what lock.What) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.ears {
		e(lock.Notice{What: what})
	}
}

// flaps are the nodes, and replicas that watch the name n over them.
func (w *world) flaps(replicas int, cfg Config) (fs []*flap, ws []*witness) {
	var all []lock.Store
	for _, n := range w.nodes {
		f := &flap{node: n}
		fs = append(fs, f)
		all = append(all, f)
	}
	for range replicas {
		s, err := New(cfg, all, zap.NewNop(), nil)
		if err != nil {
			w.Fatal(err)
		}
		x := &witness{Store: s, again: true}
		x.hub = watching.New(x.Store)
		w.Cleanup(func() { x.hub.Close(); _ = s.Close() })
		x.hub.Watch("n", x, 1)
		ws = append(ws, x)
	}
	time.Sleep(2 * time.Second)
	return fs, ws
}

// Members are killed about when a hold is released, and that comes to be known a little later. Each end is told, as
// a release, however few were alive to tell of it.
func TestTheEndOfAHoldIsToldWhenMembersAreKilledAtItsRelease(t *testing.T) {
	for _, c := range []struct{ members, killed int }{{3, 1}, {3, 2}, {5, 2}, {5, 3}} {
		for range tier.Pick(3, 20) {
			inWorld(t, c.members, Config{}, func(w *world) {
				w.lagging()
				nodes, ws := w.flaps(2, Config{})
				f := w.take(ws[0].Store, claimOf("n", "o")).Fence
				time.Sleep(time.Second)
				var killed sync.WaitGroup
				for _, n := range nodes[:c.killed] {
					killed.Go(func() {
						time.Sleep(some(8 * time.Millisecond))
						n.becomes(down)
						n.silence(true)
						time.Sleep(some(200 * time.Millisecond))
						n.says(lock.NoticeDeaf)
						time.Sleep(4 * time.Second)
						n.silence(false)
						n.becomes(fate{})
						n.says(lock.NoticeListening)
					})
				}
				time.Sleep(4 * time.Millisecond)
				if _, err := ws[0].Release(w.Context(), returnOf("n", "o", f)); err == nil {
					ws[0].hub.Ended("n", released(f))
				}
				killed.Wait()
				w.wantEnds("killed", ws, []string{end(lock.EndReleased, f)})
			})
		}
	}
}

// A forced release reaches a minority alone, and the holder has the lock there again. That a connection is interrupted
// after that does not make it an end.
func TestAForcedReleaseOfFewIsNoEndWhenAMemberIsNotHeardLater(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		nodes, ws := w.flaps(2, Config{})
		w.Store = ws[0].Store
		f := w.take(w.Store, claimOf("n", "o")).Fence
		time.Sleep(time.Second)
		for _, n := range nodes[2:] {
			n.choose(once("force", silent))
		}
		if _, err := w.Store.ForceRelease(w.Context(), "n", lock.Exclusive); err == nil {
			t.Error("a minority freed it by force")
		}
		time.Sleep(time.Second)
		if err := w.renew(renewalOf("n", "o", f)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.wantHolders("n", "o", "o", "o", "o", "o")
		nodes[2].says(lock.NoticeDeaf)
		time.Sleep(100 * time.Millisecond)
		nodes[2].says(lock.NoticeListening)
		time.Sleep(time.Second)
		w.give(w.Store, returnOf("n", "o", f))
		ws[0].hub.Ended("n", released(f))
		w.wantEnds("released", ws, []string{end(lock.EndReleased, f)})
	})
}

// A member that does not vote told of attempts that failed. When it votes again those are no ends.
func TestWhatWasToldDuringAQuarantineIsNotSureAfterIt(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.nodes[2].restart()
		s := w.another(Config{Quarantine: time.Minute})
		var sure []lock.Fence
		x := s.watcher(func(n lock.Notice) {
			if n.What == lock.NoticeEnded && !n.Unsure {
				sure = append(sure, n.Fence)
			}
		})
		for i := range s.members {
			x.hear(i, lock.Notice{What: lock.NoticeListening})
		}
		for f := lock.Fence(1); s.quarantined(s.members[2]); f++ {
			for i := range 3 {
				x.hear(i, lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: f})
			}
			time.Sleep(5 * time.Second)
		}
		x.hear(3, lock.Notice{What: lock.NoticeDeaf})
		x.hear(3, lock.Notice{What: lock.NoticeListening})
		time.Sleep(time.Second)
		if len(sure) > 0 {
			t.Errorf("told as sure of %v, which fewer than a majority told of that voted", sure)
		}
	})
}
