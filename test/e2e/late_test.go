package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// A replica sends a command, which stands still in the network. Its client goes on with the session at another replica,
// uses it there, and then the command is executed. It changes nothing that the client believes in.

// lateTTL is the session TTL of these tests.
const lateTTL = 3 * time.Second

// belated is a client whose session begins at a replica that reaches the store through proxies: all masters, or a
// majority of them.
type belated struct {
	*testing.T
	*rawClient
	st       *store
	proxies  []*redistest.Proxy
	a, b     *harness.Lockd
	stranger *client.Client // at a third one
}

// hold has what the first replica sends stand still, once one of the texts is in it.
func (l *belated) hold(texts ...string) {
	for _, p := range l.proxies {
		p.Hold(func(request []byte) bool {
			return slices.ContainsFunc(texts, func(text string) bool { return bytes.Contains(request, []byte(text)) })
		})
	}
}

// deliver has it arrive.
func (l *belated) deliver() { l.each((*redistest.Proxy).Deliver) }

func (l *belated) each(do func(p *redistest.Proxy)) {
	for _, p := range l.proxies {
		do(p)
	}
}

// standing waits until something stands still before each master that is to have it late.
func (l *belated) standing() {
	l.Helper()
	harness.Until(l, "a command stands still", func() bool {
		return !slices.ContainsFunc(l.proxies, func(p *redistest.Proxy) bool { return p.Held() == 0 })
	})
}

// moves has the client go on at the other replica.
func (l *belated) moves() *lockdv1.Opened {
	l.Helper()
	l.standing()
	l.cut()
	return l.mustResume(l.b.Addr)
}

// owner is what the store should have for a hold of the client.
func (l *belated) owner(h *lockdv1.Hold) string {
	holder := h.GetHolder()
	if holder == fmt.Sprint("#", h.GetAcquiredBy()) {
		holder = ""
	}
	return fmt.Sprintf("%s:%s#%d", l.id, holder, h.GetAcquiredBy())
}

// keeps watches that the client has what it believes to have, for as long as it believes, and that nobody else gets it.
// It does so until each lease would have ended.
func (l *belated) keeps(holds ...*lockdv1.Hold) {
	l.Helper()
	for end := time.Now().Add(lateTTL * 3 / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := l.told(); err != nil {
			l.Fatalf("the client was told: %v", err)
		}
		for _, h := range holds {
			until := l.believes(h)
			s := l.st.look(h.GetName())
			if _, there := s.fields[l.owner(h)]; !there || until.Before(s.from) || until.After(s.to.Add(s.pttl+pttlStep)) {
				l.Fatalf("%s: the client believes in it for %v, the store has %v for %v", h.GetName(), until.Sub(s.from),
					s.fields, s.pttl)
			}
			other, err := l.stranger.TryLock(l.Context(), h.GetName())
			if err == nil {
				l.Fatalf("%s: somebody else was granted fence %d", h.GetName(), other.Fence())
			} else if !errors.Is(err, client.ErrHeld) {
				l.Errorf("%s: somebody else was told: %v", h.GetName(), err)
			}
		}
	}
}

// pttlStep is how exactly Redis tells for how long a key lasts.
const pttlStep = time.Millisecond

// frees gives holds back. Nothing of them is left.
func (l *belated) frees(holds ...*lockdv1.Hold) {
	l.Helper()
	for _, h := range holds {
		if m := l.free(h); m.GetReleased() == nil {
			l.Errorf("the release of %s was answered %v", h.GetName(), m)
		}
	}
	for _, h := range holds {
		harness.Within(l, lateTTL+5*time.Second, h.GetName()+" is free", func() bool { return l.st.free(h.GetName()) })
	}
}

var lates = map[string]func(l *belated){
	"acquire": func(l *belated) {
		l.hold("job")
		id, _ := l.send(acquireOf(&lockdv1.Acquire{Name: "job"}))
		l.moves()
		h := l.take(&lockdv1.Acquire{Name: "job", InsteadOf: []uint64{id}})
		l.deliver()
		l.keeps(h)
		l.frees(h)
	},
	"acquire that nobody wants any more": func(l *belated) {
		kept := l.take(&lockdv1.Acquire{Name: "other"})
		l.hold("job")
		l.send(acquireOf(&lockdv1.Acquire{Name: "job"}))
		l.moves()
		l.deliver()
		l.keeps(kept)
		harness.Within(l, lateTTL, "the name is free", func() bool { return l.st.free("job") })
	},
	"acquire of several": func(l *belated) {
		several := &lockdv1.Acquire{Names: []string{"job", "other"}}
		l.hold("job")
		id, _ := l.send(acquireOf(several))
		l.moves()
		several.InsteadOf = []uint64{id}
		holds := l.ask(acquireOf(several)).GetGranted().GetHolds()
		if len(holds) != 2 {
			l.Fatalf("got %v", holds)
		}
		l.deliver()
		l.keeps(holds...)
		l.frees(holds...)
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
		l.deliver()
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
		l.deliver()
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
		l.deliver()
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
		l.deliver()
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
		l.deliver()
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
		l.deliver()
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
		l.deliver()
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
		l.deliver()
		l.keeps(again)
		l.frees(again)
	},
	"nested hold of a hold that is kept": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job", Holder: "h"})
		l.hold("job")
		l.send(acquireOf(&lockdv1.Acquire{Name: "job", Holder: "h"}))
		l.moves()
		l.deliver()
		l.keeps(h)
		l.frees(h)
	},
	"undo": func(l *belated) {
		l.each(func(p *redistest.Proxy) { p.Set(redistest.Mute) })
		id, _ := l.send(acquireOf(&lockdv1.Acquire{Name: "job", Wait: durationpb.New(0)}))
		harness.Until(l, "the name is taken", func() bool { return l.st.look("job").owner() != "" })
		l.hold("job")
		l.each((*redistest.Proxy).CutAll) // with the answer
		l.each(func(p *redistest.Proxy) { p.Set(redistest.Pass) })
		l.moves()
		h := l.take(&lockdv1.Acquire{Name: "job", InsteadOf: []uint64{id}})
		l.deliver()
		l.keeps(h)
		l.frees(h)
	},
	fairPlace: func(l *belated) {
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
		l.deliver()
		time.Sleep(time.Second)
		holder.free(held)
		m := harness.Soon(l, "it is granted", answer)
		h := m.GetGranted().GetHolds()[0]
		l.keeps(h)
		l.frees(h)
	},
	"keep of the record": func(l *belated) {
		h := l.take(&lockdv1.Acquire{Name: "job"})
		moved := func() bool {
			return l.st.each(func(rc *redis.Client) bool {
				return rc.HGet(l.Context(), l.record(), "epoch").Val() == "2"
			})
		}
		l.hold(l.record())
		l.moves()
		harness.Until(l, "each record has the epoch", moved)
		l.deliver()
		for end := time.Now().Add(lateTTL / 4); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if !moved() { // the new replica would write it again
				l.Fatal("a record has another epoch")
			}
		}
		l.keeps(h)
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
		l.deliver()
		l.keeps(again)
		l.frees(again)
	},
}

// fewLates are in the first tier, the first two of them over a majority too.
var fewLates = []string{"renewal", "release", "release of one of two read holds", "undo"}

// fairPlace is a case of fair locks, which a majority does not have.
const fairPlace = "place in a queue"

func TestWhatAnOldReplicaSentLateHarmsNothing(t *testing.T) {
	t.Parallel()
	for what, run := range lates {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			onlyLong(t, !slices.Contains(fewLates, what))
			runLate(t, what, &lockdv1.Open{}, run)
		})
	}
	// It asked for a release at the end of its stream, and comes back all the same.
	t.Run("end of a session", func(t *testing.T) {
		t.Parallel()
		open := &lockdv1.Open{OnDisconnect: lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE}
		runLate(t, "end of a session", open, func(l *belated) {
			h := l.take(&lockdv1.Acquire{Name: "job"})
			l.hold(l.record())
			l.cut()
			l.standing()
			l.mustResume(l.b.Addr)
			l.deliver()
			l.keeps(h)
			l.frees(h)
		})
	})
}

// runLate runs a case over each store. Over a majority what the first replica sends is late at all masters, or only at
// as many as decide: the others have done it before the session goes on.
func runLate(t *testing.T, what string, open *lockdv1.Open, run func(l *belated)) {
	onEachStore(t, func(t *testing.T, kind storeKind) {
		if what == fairPlace && kind.masters > 1 {
			t.Skip("a majority has no fair locks")
		}
		for late := kind.masters/2 + 1; late <= kind.masters; late++ {
			t.Run(fmt.Sprint("late at ", late), func(t *testing.T) {
				t.Parallel()
				onlyLong(t, late > kind.masters/2+1 || kind.masters > 1 && !slices.Contains(fewLates[:2], what))
				run(belate(t, kind, late, proto.CloneOf(open)))
			})
		}
	})
}

// belate starts three replicas, of which the first reaches the last masters of the store through proxies.
func belate(t *testing.T, kind storeKind, late int, open *lockdv1.Open) *belated {
	t.Helper()
	l := &belated{T: t, st: kind.start(t)}
	own := redistest.Addrs(l.st.masters)
	through := slices.Clone(own)
	for i := len(own) - late; i < len(own); i++ {
		p := redistest.StartProxy(t, own[i])
		through[i], l.proxies = p.Addr, append(l.proxies, p)
	}
	if kind.masters > 1 {
		l.st.acceptAnyAddresses()
	}
	env := []string{"LOCKD_SESSION_TTL=" + lateTTL.String(), "LOCKD_REDIS_OP_TIMEOUT=500ms"}
	l.a = startOver(t, through, append(env, "LOCKD_REPLICA=a")...)
	l.b = startOver(t, own, append(env, "LOCKD_REPLICA=b")...)
	l.stranger = startOver(t, own, append(env, "LOCKD_REPLICA=c")...).Dial(t)
	open.SessionTtl = durationpb.New(lateTTL)
	l.rawClient = startRaw(t, l.a.Addr, open)
	harness.Until(t, "the session has a record", func() bool {
		return l.st.each(func(rc *redis.Client) bool { return rc.Exists(t.Context(), l.record()).Val() == 1 })
	})
	return l
}

// acceptAnyAddresses has replicas serve that have other addresses for the same masters, as those behind proxies do.
// They refuse that, unless what they declare cannot be compared.
func (st *store) acceptAnyAddresses() {
	st.Helper()
	for _, rc := range st.clients {
		if err := rc.RPush(st.Context(), "lockd:config:", "no text").Err(); err != nil {
			st.Fatal(err)
		}
	}
}

// record is the key of the session's record.
func (l *belated) record() string { return "lockd:session:{" + l.id + "}" }
