package grpcapi_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/gate"
)

// TestWhatCostsTheStoreACallWaitsAtTheGate has requests of each kind come while the store has too much to do. A client
// must not be able to add to that without end: that keeps all others waiting at the gate.
func TestWhatCostsTheStoreACallWaitsAtTheGate(t *testing.T) {
	const requests = 100 // in one message, more than a piece
	for name, request := range map[string]func(id uint64, h *lockdv1.Hold) *lockdv1.SessionRequest{
		"acquire": func(id uint64, _ *lockdv1.Hold) *lockdv1.SessionRequest {
			return acquire(id, &lockdv1.Acquire{Name: "other", Wait: seconds(0)})
		},
		"release": func(id uint64, h *lockdv1.Hold) *lockdv1.SessionRequest { return release(id, h, 0) },
		"extend":  func(id uint64, h *lockdv1.Hold) *lockdv1.SessionRequest { return extendHold(id, h, 60) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var busy atomic.Int64
				g := gate.New(busyStore{&busy}, func() time.Duration { return 0 })
				s := startWith(t, zap.NewNop(), func(*broker.Config) {}, g)
				c := s.open(&lockdv1.Open{})
				h := c.take(1, "door").GetHolds()[0]
				busy.Store(1 << 20)
				var batch []*lockdv1.SessionRequest
				for id := range uint64(requests) {
					batch = append(batch, request(id+2, h))
				}
				begun := time.Now()
				c.send(inBatch(batch...))
				time.AfterFunc(500*time.Millisecond, func() { busy.Store(0) })
				c.recv()
				if took := time.Since(begun); took < 500*time.Millisecond || took > 510*time.Millisecond {
					t.Errorf("the first is answered after %v, want as soon as the store can take it", took)
				}
				for range requests - 1 {
					c.recv()
				}
				if took := time.Since(begun); took > 600*time.Millisecond {
					t.Errorf("the last is answered after %v", took)
				}
			})
		})
	}
}

// busyStore has so much to do, all for one session.
type busyStore struct{ waiting *atomic.Int64 }

func (s busyStore) Waiting() int            { return int(s.waiting.Load()) }
func (s busyStore) Share(string) (int, int) { return s.Waiting(), 1 }

// TestExtendingKeepsItsPlaceInAMessage has extensions come between other requests for the same hold, in one message.
func TestExtendingKeepsItsPlaceInAMessage(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		h := c.take(1, "door").GetHolds()[0]
		bad := extendHold(4, h, 60)
		bad.GetExtend().Lease = seconds(-1)
		c.send(inBatch(extendHold(2, h, 60), extendHold(3, h, 90), bad, release(5, h, 0), extendHold(6, h, 60)))
		got := map[uint64]*lockdv1.SessionResponse{}
		for range 5 {
			m := c.recv()
			got[m.GetRequestId()] = m
		}
		if got[2].GetExtended() == nil || got[3].GetExtended() == nil || got[5].GetReleased() == nil {
			t.Errorf("got %v", got)
		}
		for _, id := range []uint64{4, 6} {
			if got[id].GetResult() == nil {
				t.Errorf("got %v, want an error", got[id])
			}
		}
	})
}

func extendHold(id uint64, h *lockdv1.Hold, lease float64) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Extend{Extend: &lockdv1.Extend{
		Name: h.GetName(), Holder: h.GetHolder(), Fence: h.GetFence(), Lease: seconds(lease),
	}}}
}
