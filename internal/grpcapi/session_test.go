package grpcapi_test

import (
	"errors"
	"io"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func TestOpenedTellsTheRules(t *testing.T) {
	inBubble(t, func(s *server) {
		o := s.open(&lockdv1.Open{ClientName: "test"}).opened
		if o.GetSessionTtl().AsDuration() != 30*time.Second || o.GetHeartbeatInterval().AsDuration() != 10*time.Second {
			t.Errorf("got TTL %v and interval %v", o.GetSessionTtl(), o.GetHeartbeatInterval())
		}
		if len(o.GetSessionId()) != 36 || o.GetReplica() != "test" || o.GetLimits().GetNameBytes() != 512 {
			t.Errorf("got %v", o)
		}
		if o := s.open(&lockdv1.Open{SessionTtl: seconds(3)}).opened; o.GetSessionTtl().AsDuration() != 3*time.Second {
			t.Errorf("asked for 3s, got %v", o.GetSessionTtl())
		}
	})
}

func TestBatchesAreAnsweredInBatchesToThoseWhoAsked(t *testing.T) {
	requests := []*lockdv1.SessionRequest{
		acquire(1, &acq{Name: "a"}), acquire(2, &acq{Name: ""}),
		acquire(3, &acq{Name: "c"}),
	}
	inBubble(t, func(s *server) {
		for _, features := range [][]lockdv1.Feature{nil, {lockdv1.Feature_FEATURE_BATCH, 99}} {
			c := s.open(&lockdv1.Open{Features: features})
			c.send(inBatch(requests...))
			answered := map[uint64]bool{}
			for len(answered) < 3 {
				m := c.recv()
				if batch := m.GetBatch(); batch != nil {
					if features == nil {
						t.Fatal("got a batch without having announced it")
					}
					for _, r := range batch.GetResponses() {
						answered[r.GetRequestId()] = true
					}
					continue
				}
				answered[m.GetRequestId()] = true
			}
			c.send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Goodbye{Goodbye: &lockdv1.Goodbye{}}})
			if err := c.end(); !errors.Is(err, io.EOF) {
				t.Errorf("got %v, want a clean end", err)
			}
		}
	})
}

func TestTheEndOfAStreamReleasesAllIfItIsAskedTo(t *testing.T) {
	for name, end := range map[string]func(c *stream) error{
		"half-close": func(c *stream) error { return c.CloseSend() },
		"broken":     func(c *stream) error { c.cancel(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				a := s.open(&lockdv1.Open{OnDisconnect: lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE})
				b := s.open(&lockdv1.Open{})
				a.take(1, "job")
				if b.ask(1, &acq{Name: "job"}).GetQueued() == nil {
					t.Fatal("want Queued")
				}
				must(t, end(a))
				if err := a.end(); name == "half-close" && !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want a clean end", err)
				}
				if b.recv().GetGranted() == nil {
					t.Error("want the lock granted to the next")
				}
			})
		})
	}
}

// The stream of a program that cancels its call is half-closed by gRPC for Node. It may still trust its lock.
func TestAHalfCloseIsNoGoodbye(t *testing.T) {
	for name, features := range map[string][]lockdv1.Feature{"comes back": comesBack, "does not": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				a := s.open(&lockdv1.Open{Features: features, SessionTtl: seconds(9)})
				held := a.take(1, "job").GetHolds()[0]
				must(t, a.CloseSend())
				if err := a.end(); !errors.Is(err, io.EOF) {
					t.Errorf("got %v, want a clean end", err)
				}
				b := s.open(&lockdv1.Open{SessionTtl: seconds(9)})
				if b.ask(1, &acq{Name: "job"}).GetQueued() == nil {
					t.Fatal("somebody else has the lock, which its holder may trust")
				}
				if features != nil {
					if got := s.open(a.resume(2, 1, held)).opened; len(got.GetResumed()) != 1 {
						t.Errorf("it came back to %v", got)
					}
				}
			})
		})
	}
}

func TestASilentClientIsToldWhy(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{SessionTtl: seconds(3)})
		c.take(1, "job")
		if lost := c.recv().GetLost(); lost.GetReason() != lockdv1.Lost_REASON_EXPIRED || lost.GetHold().GetName() != "job" {
			t.Errorf("got %v, want the lock lost", lost)
		}
		closing := c.recv().GetClosing()
		if closing.GetFailure().GetReason() != "SESSION_SILENT" {
			t.Errorf("got %v", closing)
		}
		wantReason(t, c.end(), "SESSION_SILENT")
	})
}

func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{SessionTtl: seconds(9)})
		for range 5000 {
			c.send(acquire(0, &acq{Name: "a"}))
		}
		for range 2 { // it goes on beating, but is not heard any more
			time.Sleep(4 * time.Second)
			c.send(beat(0, 0))
		}
		if n := len(s.b.Sessions("", 10)); n != 1 {
			t.Errorf("got %d sessions before the end of the TTL, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := len(s.b.Sessions("", 10)); n != 0 {
			t.Errorf("got %d sessions, want none", n)
		}
		wantReason(t, c.end(), "STREAM_BACKLOG")
	})
}

func TestAClientThatReadsLateGetsAllAnswers(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{SessionTtl: seconds(9)})
		const requests = 5000
		for i := range requests {
			c.send(acquire(uint64(i)+1, &acq{}))
		}
		time.Sleep(8 * time.Second)
		for i := range requests {
			if m := c.recv(); m.GetRequestId() != uint64(i)+1 || m.GetResult() == nil {
				t.Fatalf("got %v, want the answer to %d", m, i+1)
			}
		}
		c.take(requests+1, "job")
	})
}

func beat(id, sent uint64) *lockdv1.SessionRequest {
	m := &lockdv1.Heartbeat{SentId: sent}
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: m}}
}

func TestHeartbeatAndValidity(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		if ack := c.call(beat(0, 1)).GetHeartbeatAck(); ack.GetSentId() != 1 || ack.ValidFor != nil {
			t.Errorf("got %v, want an ack without validity", ack)
		}
		time.Sleep(3 * time.Second)
		v := c.take(1, "job").GetValidity()
		if v.GetAnchor() != 1 || v.GetAnchorAge().AsDuration() != 3*time.Second {
			t.Errorf("got anchor %d, %v ago; want 1, 3s", v.GetAnchor(), v.GetAnchorAge().AsDuration())
		}
		if r := v.GetRemaining().AsDuration(); r <= 29*time.Second || r >= 30*time.Second {
			t.Errorf("got %v remaining, want a little less than 30s", r)
		}
		if ack := c.call(beat(0, 2)).GetHeartbeatAck(); ack.GetValidFor().AsDuration() != v.GetRemaining().AsDuration() {
			t.Errorf("got %v, want %v", ack.GetValidFor().AsDuration(), v.GetRemaining().AsDuration())
		}
	})
}

func TestEveryAnswerRepeatsTheIDOfItsRequest(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.raw()
		c.send(&lockdv1.SessionRequest{RequestId: 7, Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{}}})
		if m := c.recv(); m.GetOpened() == nil || m.GetRequestId() != 7 {
			t.Errorf("got %v, want Opened for 7", m)
		}
		c.send(inBatch(beat(8, 1), beat(9, 2)))
		for id := uint64(8); id < 10; id++ {
			if m := c.recv(); m.GetRequestId() != id || m.GetHeartbeatAck().GetSentId() != id-7 {
				t.Errorf("got %v, want the ack for %d", m, id)
			}
		}
		c.send(beat(0, 3)) // a heartbeat needs no id
		if m := c.recv(); m.GetRequestId() != 0 || m.GetHeartbeatAck().GetSentId() != 3 {
			t.Errorf("got %v, want an ack without an id", m)
		}
	})
}
