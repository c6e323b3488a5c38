package redisstore

import (
	"fmt"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/benchtest"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

const (
	// hotBatch is how many pairs are under way at the same time.
	hotBatch = 64
	// mostAllocs is how often the store may allocate for a pair: the requests, their texts, the answers, a part of the
	// batches. Of kinds that many hold at once it makes the key of the hold as well, or the id of the permit.
	mostAllocs       = 10
	mostAllocsShared = 12
)

func benchStore(tb testing.TB) *Store {
	tb.Helper()
	s, err := Open(tb.Context(), quick(redistest.Start(tb)), zap.NewNop(), nil)
	must(tb, err)
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func TestAPairAllocatesLittle(t *testing.T) {
	for kind, most := range map[lock.Kind]float64{
		lock.Exclusive: mostAllocs, lock.Read: mostAllocsShared, lock.Semaphore: mostAllocsShared,
	} {
		t.Run(kind.String(), func(t *testing.T) { benchtest.Allocs(t, hotBatch, most, newHot(t, kind).pairs) })
	}
}

// BenchmarkHotPath is what a pair of a kind costs when 64 are under way, the locks together and then the unlocks.
func BenchmarkHotPath(b *testing.B) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Read, lock.Semaphore} {
		b.Run(kind.String(), func(b *testing.B) {
			h := newHot(b, kind)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N/hotBatch + 1 {
				h.pairs()
			}
		})
	}
}

// hot has names that are locked and unlocked again and again, each by the same owner; or one name, of a kind that many
// hold at once. It allocates nothing itself.
type hot struct {
	t        testing.TB
	s        *Store
	claims   [hotBatch]lock.Claim
	returns  [hotBatch]lock.Return
	acquired [hotBatch]func(lock.Grant, error)
	released func(lock.Returned, error)
	answers  sync.WaitGroup
}

func newHot(tb testing.TB, kind lock.Kind) *hot {
	h := &hot{t: tb, s: benchStore(tb)}
	for i := range hotBatch {
		name, owner := fmt.Sprint("hot:", i), whole(lock.Owner(fmt.Sprint("session:#", i)))
		if kind.Shared() {
			name = "hot"
		}
		h.claims[i], h.returns[i] = kindClaim(kind, name, owner), kindReturn(kind, name, owner, 0)
		if kind == lock.Semaphore {
			h.claims[i].Permits, h.claims[i].Limit, h.returns[i].Permits = 1, hotBatch, 1
		}
		h.acquired[i] = func(g lock.Grant, err error) {
			h.returns[i].Fence = g.Fence
			h.answered(err)
		}
	}
	h.released = func(_ lock.Returned, err error) { h.answered(err) }
	h.pairs() // loads the scripts
	return h
}

func (h *hot) answered(err error) {
	if err != nil {
		h.t.Error(err)
	}
	h.answers.Done()
}

func (h *hot) pairs() {
	h.answers.Add(hotBatch)
	for i := range h.claims {
		h.s.StartAcquire(h.claims[i], h.acquired[i])
	}
	h.answers.Wait()
	h.answers.Add(hotBatch)
	for i := range h.returns {
		h.s.StartRelease(h.returns[i], h.released)
	}
	h.answers.Wait()
}
