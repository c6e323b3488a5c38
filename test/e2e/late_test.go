package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// A replica sends a command, which stands still in the network. Its client goes on with the session at another replica,
// which does what was asked for, and then the command is executed. It changes nothing that the client believes in.

// lateTTL is the session TTL of these clients. A slow machine may need some seconds to go on elsewhere.
const lateTTL = 9 * time.Second

// belated is a client whose session begins at a replica that reaches the store through proxies: all masters, or a
// majority of them.
type belated struct {
	*testing.T
	*client.Client
	masters  []*redistest.Server
	proxies  []*redistest.Proxy // before masters
	front    *redistest.Proxy   // before the first replica
	a, b     *harness.Lockd
	id       string         // of the session
	stranger *client.Client // at a third one
}

// belate starts three replicas, of which the first reaches so many masters through proxies.
func belate(t *testing.T, n, late int) *belated {
	t.Helper()
	l := &belated{T: t, masters: redistest.StartMasters(t, n)}
	own := redistest.Addrs(l.masters)
	through := slices.Clone(own)
	for i := n - late; i < n; i++ {
		p := redistest.StartProxy(t, own[i])
		through[i], l.proxies = p.Addr, append(l.proxies, p)
	}
	// Replicas with other addresses for the same masters refuse to serve, unless what they declare cannot be compared.
	if n > 1 {
		for _, m := range l.masters {
			harness.Must(t, m.Client().RPush(t.Context(), "lockd:config:", "no text").Err())
		}
	}
	l.b = startLockd(t, own, soonOver, "LOCKD_REPLICA=b") // first: it finds all masters new, however busy the machine is
	l.a = startLockd(t, through, soonOver, "LOCKD_REPLICA=a")
	l.stranger = startLockd(t, own, soonOver, "LOCKD_REPLICA=c").Dial(t)
	l.front = redistest.StartProxy(t, l.a.Addr)
	told := make(statuses, 100)
	l.Client = harness.Dial(t, l.front.Addr+","+l.b.Addr, told.option(), client.WithSessionTTL(lateTTL))
	awaitGrant(t, l.Client, "the first")
	l.id = told.await(t, client.Connected).Session
	recorded(t, l.masters, l.id)
	return l
}

// record is the key of the session's record.
func (l *belated) record() string { return recordOf(l.id) }

// hold has what the first replica sends stand still, once a text is in it.
func (l *belated) hold(text string) {
	for _, p := range l.proxies {
		p.Hold(func(request []byte) bool { return bytes.Contains(request, []byte(text)) })
	}
}

// deliver has it arrive.
func (l *belated) deliver() {
	for _, p := range l.proxies {
		p.Deliver()
	}
}

// moves has the client go on at the other replica, once a command stands still before each master that is to have it
// late.
func (l *belated) moves() {
	l.Helper()
	l.standing()
	l.front.Set(redistest.Cut)
	l.front.CutAll()
	harness.Until(l, "the session goes on", func() bool { return l.b.Metric(`lockd_resume_total{result="resumed"}`) > 0 })
}

// standing waits until a command stands still before each master that is to have it late.
func (l *belated) standing() {
	l.Helper()
	harness.Until(l, "a command stands still", func() bool {
		return !slices.ContainsFunc(l.proxies, func(p *redistest.Proxy) bool { return p.Held() == 0 })
	})
}

// late asks for something that stands still, goes on elsewhere, and waits until it is done there.
func (l *belated) late(what string, ask func() error) {
	l.Helper()
	l.hold("job")
	done := make(chan error, 1)
	go func() { done <- ask() }()
	l.moves()
	if err := harness.Soon(l, what+" is answered", done); err != nil {
		l.Fatalf("%s: %v", what, err)
	}
}

// keeps has the command arrive, and watches that the client has what it believes to have, for as long as it believes,
// and that nobody else gets it. It does so while leases are renewed; in the second tier until each would have ended.
func (l *belated) keeps(locks ...*client.Lock) {
	l.Helper()
	l.deliver()
	end := time.Now().Add(tier.Pick(lateTTL/3, lateTTL*3/2))
	for ; time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, k := range locks {
			until := k.Deadline()
			left := l.left(k.Name())
			if k.Err() != nil || until.After(time.Now().Add(left)) {
				l.Fatalf("%s: %v, the client believes in it for %v, the store has it for %v", k.Name(), k.Err(),
					time.Until(until), left)
			}
			if other, err := l.stranger.TryLock(l.Context(), k.Name()); err == nil {
				l.Fatalf("%s: somebody else was granted fence %d", k.Name(), other.Fence())
			} else if !errors.Is(err, client.ErrHeld) && !excused(err) {
				l.Errorf("%s: somebody else was told: %v", k.Name(), err)
			}
		}
	}
}

// left is for how long a majority has a name yet.
func (l *belated) left(name string) time.Duration {
	l.Helper()
	var all []time.Duration
	for _, m := range l.masters {
		ttl, err := m.Client().PTTL(l.Context(), name).Result()
		if err != nil {
			l.Fatal(err)
		}
		all = append(all, ttl)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// frees releases everything. Nothing of it is left.
func (l *belated) frees(locks ...*client.Lock) {
	l.Helper()
	for _, k := range locks {
		mustUnlock(l.T, k)
	}
	l.free()
}

// free waits until no master has the name.
func (l *belated) free() {
	l.Helper()
	harness.Until(l, "the name is free", func() bool {
		return !slices.ContainsFunc(l.masters, func(m *redistest.Server) bool { return has(l.T, m, "job") })
	})
}

// asked is a request for a lock, and the lock when it is granted.
func (l *belated) asked(lock **client.Lock, opts ...client.LockOption) func() error {
	return func() (err error) { *lock, err = l.Lock(l.Context(), "job", opts...); return err }
}

// unlocking is a release.
func (l *belated) unlocking(k *client.Lock) func() error {
	return func() error { return k.Unlock(l.Context()) }
}

var lates = map[string]func(l *belated){
	"acquire": func(l *belated) {
		var k *client.Lock
		l.late("the request", l.asked(&k))
		l.keeps(k)
		l.frees(k)
	},
	"acquire that nobody wants any more": func(l *belated) {
		kept := mustLock(l.T, l.Client, "other")
		ctx, cancel := context.WithCancel(l.Context())
		l.hold("job")
		ended := make(chan error, 1)
		go func() { _, err := l.Lock(ctx, "job"); ended <- err }()
		l.moves()
		cancel()
		if err := harness.Soon(l, "the request has ended", ended); err == nil {
			l.Log("it was granted before it was given up") // and is released with its client
		}
		l.keeps(kept)
	},
	"release": func(l *belated) {
		l.late("the release", l.unlocking(mustLock(l.T, l.Client, "job")))
		again := mustLock(l.T, l.Client, "job")
		l.keeps(again)
		l.frees(again)
	},
	"release of one of two holds": func(l *belated) {
		one := mustLock(l.T, l.Client, "job", client.Holder("h"))
		l.late("the release", l.unlocking(mustLock(l.T, l.Client, "job", client.Holder("h"))))
		again := mustLock(l.T, l.Client, "job", client.Holder("h"))
		l.keeps(one, again)
		l.frees(one, again)
	},
	"release of one of two read holds": func(l *belated) {
		read := []client.LockOption{client.As(client.Read), client.Holder("h")}
		one := mustLock(l.T, l.Client, "job", read...)
		l.late("the release", l.unlocking(mustLock(l.T, l.Client, "job", append(read, client.Lease(lateTTL))...)))
		l.keeps(one)
		l.frees(one)
	},
	"handoff": func(l *belated) {
		k := mustLock(l.T, l.Client, "job")
		waiter := queue(l.T, l.a.Dial(l.T), "job")
		l.late("the release", l.unlocking(k))
		again := mustLock(l.T, l.Client, "job")
		l.keeps(again)
		mustUnlock(l.T, again)
		l.frees(harness.Soon(l, "the waiter has it", waiter))
	},
	"renewal": func(l *belated) {
		k, kept := mustLock(l.T, l.Client, "job"), mustLock(l.T, l.Client, "other")
		l.hold("job")
		l.moves()
		mustUnlock(l.T, k)
		again := mustLock(l.T, l.Client, "job", client.Lease(time.Minute))
		l.keeps(again, kept)
		l.frees(again, kept)
	},
	"extend": func(l *belated) {
		k := mustLock(l.T, l.Client, "job", client.Lease(time.Minute))
		l.late("the extension", func() error { return k.Extend(l.Context(), 2*time.Minute) })
		l.keeps(k)
		l.frees(k)
	},
	"shorten": func(l *belated) {
		k := mustLock(l.T, l.Client, "job", client.Lease(2*time.Minute))
		l.late("the extension", func() error { return k.Shorten(l.Context(), time.Minute) })
		harness.Must(l, k.Extend(l.Context(), 2*time.Minute))
		l.keeps(k)
		l.frees(k)
	},
	"nested hold": func(l *belated) {
		one := mustLock(l.T, l.Client, "job", client.Holder("h"))
		var two *client.Lock
		l.late("the request", l.asked(&two, client.Holder("h")))
		l.frees(one, two)
		again := mustLock(l.T, l.Client, "job", client.Holder("h"))
		l.keeps(again)
		l.frees(again)
	},
	"try whose undoing is late": func(l *belated) {
		for _, p := range l.proxies {
			p.Set(redistest.LoseReplies)
		}
		tried := make(chan error, 1)
		var k *client.Lock
		go func() { var err error; k, err = l.TryLock(l.Context(), "job"); tried <- err }()
		harness.Until(l, "the name is taken", func() bool { return l.left("job") > 0 })
		l.hold("job")
		for _, p := range l.proxies {
			p.CutAll() // with the answer
			p.Set(redistest.Pass)
		}
		l.moves()
		if err := harness.Soon(l, "the try is answered", tried); err != nil {
			k = mustLock(l.T, l.Client, "job")
		}
		l.keeps(k)
		l.frees(k)
	},
	"the end of a session": func(l *belated) {
		k := mustLock(l.T, l.Client, "job")
		l.hold("job")
		closed := make(chan struct{})
		go func() { defer close(closed); _ = l.Close() }()
		l.standing()
		<-closed
		again := mustLock(l.T, l.b.Dial(l.T), "job") // when the lease has run out
		if again.Fence() <= k.Fence() {
			l.Errorf("fence %d after %d", again.Fence(), k.Fence())
		}
		l.keeps(again)
		l.frees(again)
	},
	"keep of the record": func(l *belated) {
		k := mustLock(l.T, l.Client, "job")
		record := l.record()
		epoch := func() string { return l.masters[len(l.masters)-1].Client().HGet(l.Context(), record, "epoch").Val() }
		l.hold(record)
		l.moves()
		harness.Until(l, "the record has the epoch", func() bool { return epoch() == "2" })
		l.keeps(k)
		if e := epoch(); e != "2" {
			l.Errorf("the record has epoch %s", e)
		}
		l.frees(k)
	},
}

// fewLates are in the first tier, the first two of them over a majority too.
var fewLates = []string{"renewal", "release", "release of one of two read holds", "try whose undoing is late"}

// Over a majority what the first replica sends is late at all masters, or only at as many as decide: the others have
// done it before the session goes on.
func TestWhatAnOldReplicaSentLateHarmsNothing(t *testing.T) {
	t.Parallel()
	for what, run := range lates {
		for _, at := range []struct{ masters, late int }{{1, 1}, {3, 2}, {3, 3}} {
			t.Run(fmt.Sprintf("%s late at %d of %d", what, at.late, at.masters), func(t *testing.T) {
				t.Parallel()
				if at.late == 3 || !slices.Contains(fewLates[:4-2*(at.masters/3)], what) {
					tier.Long(t)
				}
				run(belate(t, at.masters, at.late))
			})
		}
	}
}
