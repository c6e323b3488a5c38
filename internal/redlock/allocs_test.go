package redlock

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// instant is a member that says yes to everything when it is told to answer.
type instant struct {
	lock.Store
	claim    lock.Claim
	acquired func(lock.Grant, error)
	released func(lock.Returned, error)
}

func (m *instant) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	m.claim, m.acquired = c, done
}

func (m *instant) StartRelease(_ lock.Return, done func(lock.Returned, error)) { m.released = done }

// mostAllocs bounds what an acquisition and its release over five members cost besides what the members do. Each member
// is told whom to answer, which is one for each call; the rest is for all of them.
const mostAllocs = 2*5 + 20

func TestAFanOutAllocatesLittle(t *testing.T) {
	var members [5]*instant
	var stores []lock.Store
	for i := range members {
		members[i] = &instant{}
		stores = append(stores, members[i])
	}
	s, err := New(Config{}, stores, zap.NewNop(), nil)
	must(t, err)
	claim := lock.Claim{Name: "n", Kind: lock.Exclusive, Owner: "s:#1", TTL: time.Minute}
	once := func() {
		var g lock.Grant
		s.StartAcquire(claim, func(got lock.Grant, err error) {
			must(t, err)
			g = got
		})
		for _, m := range members {
			m.acquired(lock.Grant{Fence: m.claim.Fence, TTL: m.claim.TTL}, nil)
		}
		s.StartRelease(lock.Return{Name: "n", Kind: lock.Exclusive, Owner: "s:#1", Fence: g.Fence},
			func(_ lock.Returned, err error) {
				must(t, err)
			})
		for _, m := range members {
			m.released(lock.Returned{}, nil)
		}
	}
	got := testing.AllocsPerRun(100, once)
	for range 2 { // what the runtime allocates meanwhile counts, too
		got = min(got, testing.AllocsPerRun(100, once))
	}
	if got > mostAllocs {
		t.Errorf("got %v allocations, want at most %d", got, mostAllocs)
	}
}
