package redisson

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
)

func clusterStage(t *testing.T, ttl time.Duration) (*stage, *redistest.Cluster) {
	t.Helper()
	tier.Long(t)
	k := redistest.StartCluster(t)
	addrs := strings.Join(k.Addrs(), ",")
	return newStageAt(t, k.Nodes, ttl, "cluster://"+addrs, "LOCKD_STORE_KIND=cluster", "LOCKD_REDIS_CLUSTER_ADDRS="+addrs),
		k
}

func sentinelStage(t *testing.T, ttl time.Duration) (*stage, *redistest.Sentinels) {
	t.Helper()
	tier.Long(t)
	k := redistest.StartSentinels(t)
	addrs := strings.Join(k.Addrs, ",")
	return newStageAt(t, k.Servers, ttl, "sentinel://"+redistest.MasterName+"@"+addrs, "LOCKD_STORE_KIND=sentinel",
		"LOCKD_REDIS_SENTINEL_MASTER="+redistest.MasterName, "LOCKD_REDIS_SENTINEL_ADDRS="+addrs), k
}

// meet has each side hold a name while the other wants it: the other is refused, and waits until it is told of the
// release.
func (s *stage) meet(p pair, name string) {
	s.t.Helper()
	s.heldByLockd(p, name).pass()
	s.heldByRedisson(p, name).pass()
}

// held is a name that one side holds while the other waits for it.
type held struct {
	release func()
	granted func() // to the other side, which releases it then
}

// pass has it released and granted.
func (h held) pass() { h.release(); h.granted() }

// heldByLockd takes another name where Redisson cannot listen for the first one. After a node has changed its role, one
// of the locks that it keeps its subscriptions under may stay taken: it gives up then, whoever holds the name.
func (s *stage) heldByLockd(p pair, name string) held {
	s.t.Helper()
	c, w := s.lockd.Dial(s.t), s.redisson.worker("waiter-of-"+name)
	for range 3 {
		l := s.lock(c, p.holder, name)
		w.want(false, "try", p.waiter.name, name, 0, 0)
		waiting := w.tell("acquire", p.waiter.name, name, 0)
		err := s.listens(waiting, name)
		if err == nil {
			return s.heldBy(l, waiting, func() { w.release(p.waiter, name) })
		}
		if !strings.Contains(err.Error(), "subscription lock") {
			s.t.Fatalf("%s: Redisson does not wait: %v", name, err)
		}
		s.t.Logf("%s: Redisson cannot listen: %v", name, err)
		s.unlock(l)
		name += "-anew"
		s.prepare(p.holder, name)
	}
	s.t.Fatalf("%s: Redisson can listen for no name", name)
	return held{}
}

// heldBy is what lockd holds as l while Redisson waits.
func (s *stage) heldBy(l *client.Lock, waiting *call, release func()) held {
	return held{
		release: func() {
			s.t.Helper()
			if waiting.answered() {
				s.t.Fatalf("%s: Redisson got what lockd holds: %v", l.Name(), waiting.err)
			}
			s.unlock(l)
		},
		granted: func() {
			s.t.Helper()
			waiting.must()
			release()
		},
	}
}

func (s *stage) heldByRedisson(p pair, name string) held {
	s.t.Helper()
	c, w := s.lockd.Dial(s.t), s.redisson.worker("holder-of-"+name)
	w.ask("acquire", p.holder.name, name, 0)
	if _, err := c.TryLock(s.t.Context(), name, p.waiter.opts...); !errors.Is(err, client.ErrHeld) {
		s.t.Fatalf("%s: lockd: got %v, want that it is held", name, err)
	}
	waiting := s.wait(c, p.waiter, name)
	s.waiting(name, 1)
	return held{
		release: func() {
			s.t.Helper()
			s.none(waiting)
			w.release(p.holder, name) // Redisson may first have to find the new master
		},
		granted: func() {
			s.t.Helper()
			s.unlock(s.soon(waiting))
		},
	}
}

// release has Redisson release a name where nodes change. It may fail, with or without having released it, so it is
// told again.
func (w *worker) release(k kind, name string) {
	w.r.t.Helper()
	var err error
	for again := range 4 {
		_, err = w.tell("release", k.name, name).answer()
		if err == nil || again > 0 && released(err) {
			return
		}
		w.r.t.Logf("%s: Redisson fails to release it: %v", name, err)
	}
	w.r.t.Fatalf("%s: Redisson cannot release it: %v", name, err)
}

// released says whether there was nothing left to release for Redisson.
func released(err error) bool {
	return strings.Contains(err.Error(), "not locked by current thread") ||
		strings.Contains(err.Error(), "already been released")
}

// holdAll has one side hold a name of each kind.
func (s *stage) holdAll(prefix string, hold func(p pair, name string) held) (all []held) {
	s.t.Helper()
	for _, p := range pairs {
		name := prefix + "-" + p.String()
		s.prepare(p.holder, name)
		all = append(all, hold(p, name))
	}
	return all
}

// meetAll has them meet over each kind.
func (s *stage) meetAll(prefix string) {
	s.t.Helper()
	for _, p := range pairs {
		name := prefix + "-" + p.String()
		s.prepare(p.holder, name)
		s.meet(p, name)
	}
}

// passAll has all of them released, and then granted.
func passAll(hs []held) {
	for _, h := range hs {
		h.release()
	}
	for _, h := range hs {
		h.granted()
	}
}

func TestBothMeetOnACluster(t *testing.T) {
	t.Parallel()
	s, k := clusterStage(t, long)
	for _, name := range onEachMaster(k) {
		s.meetAll("{" + name + "}")
	}
}

// onEachMaster is a name on each master of a cluster.
func onEachMaster(k *redistest.Cluster) (names []string) {
	seen := make(map[*redistest.Server]bool)
	for i := 0; len(names) < 3; i++ {
		name := fmt.Sprint("job", i)
		if m := k.MasterOf(k.Slot(name)); !seen[m] {
			seen[m] = true
			names = append(names, name)
		}
	}
	return names
}

// A slot moves, then its master fails over, and then the new one is killed, while locks are held and waited for.
func TestBothMeetWhereverASlotIs(t *testing.T) {
	t.Parallel()
	const ttl = 9 * time.Second
	s, k := clusterStage(t, ttl)
	slot := k.Slot("job")
	move := func() { k.Migrate(slot).Finish() }
	failOver := func() { k.FailOver(k.ReplicaOf(k.MasterOf(slot))) }
	kill := func() {
		master := k.MasterOf(slot)
		replica := k.ReplicaOf(master)
		master.Replicated(1)
		k.ReplaceSoon()
		master.Kill()
		k.AwaitMaster(replica)
	}
	for i, change := range []func(){move, failOver, kill} {
		name := fmt.Sprint("{job}", i)
		byRedisson := s.holdAll(name, s.heldByRedisson)
		byLockd := s.heldByLockd(pair{plain, plain}, name)
		change()
		passAll(byRedisson)
		// Redisson hears nothing any more, also without lockd. It looks when the lease that it knows ends.
		byLockd.pass()
		s.meetAll(name + "-then")
	}
}

// Behind Redis Sentinel the master is killed while locks are held and waited for.
func TestBothMeetBehindSentinels(t *testing.T) {
	t.Parallel()
	s, k := sentinelStage(t, long)
	s.meetAll("first")
	all := append(s.holdAll("job", s.heldByLockd), s.holdAll("task", s.heldByRedisson)...)
	master := k.Master()
	master.Replicated(2)
	k.ReplaceSoon()
	master.Kill()
	k.Settle(master.Addr)
	for _, p := range pairs {
		s.subscribed("job-"+p.String(), 1) // Redisson does not look again when it can hear again
	}
	passAll(all)
	s.meetAll("then")
}
