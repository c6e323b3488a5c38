package redlock

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// instant is a member that says yes at once.
type instant struct{ lock.Store }

func (instant) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	done(lock.Grant{Fence: c.Fence, TTL: c.TTL}, nil)
}

func (instant) StartRelease(_ lock.Return, done func(lock.Returned, error)) {
	done(lock.Returned{}, nil)
}

// mostAllocs bounds what an acquisition and its release over five members cost besides what the members do. Each member
// is told whom to answer, which is one for each call; the rest is for all of them.
const mostAllocs = 2*5 + 20

func TestAFanOutAllocatesLittle(t *testing.T) {
	members := make([]lock.Store, 5)
	for i := range members {
		members[i] = instant{}
	}
	s, err := New(Config{}, members, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	claim := lock.Claim{Name: "n", Kind: lock.Exclusive, Owner: "s:#1", TTL: time.Minute}
	once := func() {
		var g lock.Grant
		s.StartAcquire(claim, func(got lock.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
			g = got
		})
		s.StartRelease(lock.Return{Name: "n", Kind: lock.Exclusive, Owner: "s:#1", Fence: g.Fence},
			func(_ lock.Returned, err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
	}
	got := testing.AllocsPerRun(100, once)
	for range 2 { // what the runtime allocates meanwhile counts, too
		got = min(got, testing.AllocsPerRun(100, once))
	}
	if got > mostAllocs {
		t.Errorf("got %v allocations, want at most %d", got, mostAllocs)
	}
}
