package e2e

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// A replica sends a command, which stands still in the network. Its client goes on with the session at another replica,
// uses it there, and then the command is executed. It changes nothing that the client believes in.

// lateTTL is the session TTL of these tests.
const lateTTL = 3 * time.Second

// belated is a client whose session begins at a replica behind a proxy.
type belated struct {
	*testing.T
	*rawClient
	rc    *redis.Client
	proxy *redistest.Proxy
	a, b  *harness.Lockd
}

// hold has what the first replica sends stand still, once one of the texts is in it.
func (l *belated) hold(texts ...string) {
	l.proxy.Hold(func(request []byte) bool {
		for _, text := range texts {
			if bytes.Contains(request, []byte(text)) {
				return true
			}
		}
		return false
	})
}

// standing waits until something stands still.
func (l *belated) standing() {
	l.Helper()
	harness.Until(l, "a command stands still", func() bool { return l.proxy.Held() > 0 })
}

// moves has the client go on at the other replica.
func (l *belated) moves() *lockdv1.Opened {
	l.Helper()
	l.standing()
	l.cut()
	return l.mustResume(l.b.Addr)
}

// owner is what Redis should have for a hold of the client.
func (l *belated) owner(h *lockdv1.Hold) string {
	holder := h.GetHolder()
	if holder == fmt.Sprint("#", h.GetAcquiredBy()) {
		holder = ""
	}
	return fmt.Sprintf("%s:%s#%d", l.id, holder, h.GetAcquiredBy())
}

// keeps watches that the client has what it believes to have, for so long that each lease would have ended.
func (l *belated) keeps(holds ...*lockdv1.Hold) {
	l.Helper()
	for end := time.Now().Add(lateTTL * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := l.told(); err != nil {
			l.Fatalf("the client was told: %v", err)
		}
		for _, h := range holds {
			until := l.believes(h)
			s := look(l.T, l.rc, h.GetName())
			if _, there := s.fields[l.owner(h)]; !there || until.Before(s.from) {
				l.Fatalf("%s: the client believes in it for %v, Redis has %v", h.GetName(), until.Sub(s.from), s.fields)
			}
		}
	}
}

// frees gives holds back. Nothing of them is left.
func (l *belated) frees(holds ...*lockdv1.Hold) {
	l.Helper()
	for _, h := range holds {
		if m := l.free(h); m.GetReleased() == nil {
			l.Errorf("the release of %s was answered %v", h.GetName(), m)
		}
	}
	for _, h := range holds {
		harness.Within(l, lateTTL+5*time.Second, h.GetName()+" is free",
			func() bool { return look(l.T, l.rc, h.GetName()).owner() == "" })
	}
}

var lates = map[string]func(l *belated){
	"acquire": func(l *belated) {
		l.hold("job")
		id, _ := l.send(acquireOf(&lockdv1.Acquire{Name: "job"}))
		l.moves()
		h := l.take(&lockdv1.Acquire{Name: "job", InsteadOf: []uint64{id}})
		l.proxy.Deliver()
		l.keeps(h)
		l.frees(h)
	},
	"acquire that nobody wants any more": func(l *belated) {
		kept := l.take(&lockdv1.Acquire{Name: "other"})
		l.hold("job")
		l.send(acquireOf(&lockdv1.Acquire{Name: "job"}))
		l.moves()
		l.proxy.Deliver()
		l.keeps(kept)
		harness.Within(l, lateTTL, "the name is free", func() bool { return look(l.T, l.rc, "job").owner() == "" })
	},
	"release": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job"})
		l.hold("job")
		l.send(releaseOf(h))
		if o := l.moves(); len(o.GetResumed()) != 1 {
			l.Fatalf("resumed %v", o)
		}
		if m := l.free(h); m.GetReleased() == nil {
			l.Fatalf("the release was answered %v", m)
		}
		again := l.take(&lockdv1.Acquire{Name: "job"})
		l.proxy.Deliver()
		l.keeps(again)
		l.frees(again)
	},
	"release of one of two holds": func(l *belated) {
		l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		h := l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		l.hold("job")
		l.send(releaseOf(h))
		l.moves()
		if m := l.free(h); m.GetReleased().GetRemaining() != 1 {
			l.Fatalf("the release was answered %v", m)
		}
		l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		l.proxy.Deliver()
		l.keeps(h)
		l.free(h)
		l.frees(h)
	},
	"release of one of two read holds": func(l *belated) {
		l.take(&lockdv1.Acquire{
			Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_READ, Holder: "h",
			Lease: durationpb.New(lateTTL),
		})
		h := l.take(&lockdv1.Acquire{Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_READ, Holder: "h"})
		l.hold("job")
		l.send(releaseOf(h))
		if o := l.moves(); len(o.GetResumed()) != 1 {
			l.Fatalf("resumed %v", o)
		}
		l.proxy.Deliver()
		l.keeps(h)
		l.free(h)
		l.frees(h)
	},
	"hand-over": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job"})
		waiter := startRaw(l.T, l.a.Addr, &lockdv1.Open{SessionTtl: durationpb.New(lateTTL)})
		waiter.send(acquireOf(&lockdv1.Acquire{Name: "job"}))
		harness.Until(l, "somebody waits", func() bool { return l.a.Metric("lockd_waiters") == 1 })
		l.hold("job")
		l.send(releaseOf(h))
		l.moves()
		l.free(h)
		again := l.take(&lockdv1.Acquire{Name: "job"})
		l.proxy.Deliver()
		l.keeps(again)
		l.free(again)
		harness.Within(l, lateTTL+5*time.Second, "the waiter has it", func() bool { return l.a.Metric("lockd_waiters") == 0 })
		if err := waiter.told(); err != nil {
			l.Errorf("the waiter was told: %v", err)
		}
	},
	"renewal": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job"})
		kept := l.take(&lockdv1.Acquire{Name: "other"})
		l.hold("job")
		l.moves()
		l.free(h)
		again := l.take(&lockdv1.Acquire{Name: "job", Lease: durationpb.New(20 * time.Second)})
		l.proxy.Deliver()
		l.keeps(again, kept)
		l.frees(again, kept)
	},
	"extend": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job", Lease: durationpb.New(10 * time.Second)})
		l.hold("job")
		l.send(extendOf(h, 20*time.Second, false))
		o := l.moves()
		if d := o.GetResumed()[0].GetValidity().GetRemaining().AsDuration(); d > 10*time.Second {
			l.Fatalf("valid for %v", d)
		}
		l.proxy.Deliver()
		l.keeps(h)
		l.frees(h)
	},
	"shorten": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job", Lease: durationpb.New(20 * time.Second)})
		l.hold("job")
		l.beginExtend(h, 10*time.Second, true)
		l.moves()
		l.extend(h, 10*time.Second, true) // as the page of the protocol says: send it again
		l.extend(h, 20*time.Second, false)
		l.proxy.Deliver()
		l.keeps(h)
		l.frees(h)
	},
	"nested hold": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		l.hold("job")
		l.send(acquireOf(&lockdv1.Acquire{Name: "job", Holder: "h"}))
		l.moves()
		l.free(h)
		again := l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		l.proxy.Deliver()
		l.keeps(again)
		l.frees(again)
	},
	"nested hold of a hold that is kept": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		l.hold("job")
		l.send(acquireOf(&lockdv1.Acquire{Name: "job", Holder: "h"}))
		l.moves()
		l.proxy.Deliver()
		l.keeps(h)
		l.frees(h)
	},
	"undo": func(l *belated) {
		l.proxy.Set(redistest.Mute)
		id, _ := l.send(acquireOf(&lockdv1.Acquire{Name: "job", Wait: durationpb.New(0)}))
		harness.Until(l, "the name is taken", func() bool { return look(l.T, l.rc, "job").owner() != "" })
		l.hold("job")
		l.proxy.CutAll() // with the answer
		l.proxy.Set(redistest.Pass)
		l.moves()
		h := l.take(&lockdv1.Acquire{Name: "job", InsteadOf: []uint64{id}})
		l.proxy.Deliver()
		l.keeps(h)
		l.frees(h)
	},
	"place in a queue": func(l *belated) {
		holder := startRaw(l.T, l.b.Addr, &lockdv1.Open{SessionTtl: durationpb.New(lateTTL)})
		held := holder.take(&lockdv1.Acquire{Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_FAIR})
		id, _ := l.send(acquireOf(&lockdv1.Acquire{Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_FAIR}))
		harness.Until(l, "it waits", func() bool { return l.a.Metric("lockd_waiters") == 1 })
		l.hold("job")
		l.moves()
		_, answer := l.send(acquireOf(&lockdv1.Acquire{
			Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_FAIR,
			InsteadOf: []uint64{id},
		}))
		harness.Until(l, "it waits there", func() bool { return l.b.Metric("lockd_waiters") == 1 })
		l.proxy.Deliver()
		time.Sleep(time.Second)
		holder.free(held)
		m := harness.Soon(l, "it is granted", answer)
		h := m.GetGranted().GetHolds()[0]
		l.keeps(h)
		l.frees(h)
	},
	"keep of the record": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job"})
		l.hold(l.record())
		l.moves()
		l.proxy.Deliver()
		l.keeps(h)
		if epoch := l.rc.HGet(l.Context(), l.record(), "epoch").Val(); epoch != "2" {
			l.Errorf("the record has epoch %q", epoch)
		}
		l.frees(h)
	},
	"release at the end of a session": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job"})
		l.hold("job")
		l.send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Goodbye{Goodbye: &lockdv1.Goodbye{}}})
		l.standing()
		l.cut()
		if o, err := l.resume(l.b.Addr); err == nil {
			l.Fatalf("after Goodbye: %v", o)
		} else if got := status.Convert(err).Message(); got != "the session has expired" {
			l.Errorf("after Goodbye: %v", err)
		}
		next := startRaw(l.T, l.b.Addr, &lockdv1.Open{SessionTtl: durationpb.New(lateTTL)})
		l.rawClient = next
		again := next.take(&lockdv1.Acquire{Name: "job"}) // when the lease has run out
		if again.GetFence() <= h.GetFence() {
			l.Errorf("fence %d after %d", again.GetFence(), h.GetFence())
		}
		l.proxy.Deliver()
		l.keeps(again)
		l.frees(again)
	},
}

// fewLates are run in any case.
var fewLates = []string{"release", "release of one of two read holds", "renewal", "undo"}

func TestWhatAnOldReplicaSentLateHarmsNothing(t *testing.T) {
	t.Parallel()
	for what, run := range lates {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if os.Getenv(longEnv) == "" && !slices.Contains(fewLates, what) {
				t.Skip("make test-resume runs it")
			}
			runLate(t, &lockdv1.Open{}, run)
		})
	}
	// It asked for a release at the end of its stream, and comes back all the same.
	t.Run("end of a session", func(t *testing.T) {
		t.Parallel()
		runLate(t, &lockdv1.Open{OnDisconnect: lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE}, func(l *belated) {
			h := l.take(&lockdv1.Acquire{Name: "job"})
			l.hold(l.record())
			l.cut()
			l.standing()
			l.mustResume(l.b.Addr)
			l.proxy.Deliver()
			l.keeps(h)
			l.frees(h)
		})
	})
}

// runLate runs a case with two replicas of its own, of which the first reaches Redis through a proxy. Each has names of
// its own.
func runLate(t *testing.T, open *lockdv1.Open, run func(l *belated)) {
	l := &belated{T: t}
	own := redistest.Start(t)
	l.rc, l.proxy = own.Client(), redistest.StartProxy(t, own.Addr)
	env := []string{"LOCKD_SESSION_TTL=" + lateTTL.String(), "LOCKD_REDIS_OP_TIMEOUT=500ms"}
	l.a = startLockd(t, l.proxy.Addr, append(env, "LOCKD_REPLICA=a")...)
	l.b = startLockd(t, own.Addr, append(env, "LOCKD_REPLICA=b")...)
	open.SessionTtl = durationpb.New(lateTTL)
	l.rawClient = startRaw(t, l.a.Addr, open)
	harness.Until(l, "the session has a record", func() bool { return l.rc.Exists(l.Context(), l.record()).Val() == 1 })
	run(l)
}

// record is the key of the session's record.
func (l *belated) record() string { return "lockd:session:{" + l.id + "}" }
