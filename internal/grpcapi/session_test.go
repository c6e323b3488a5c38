package grpcapi_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

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

func TestOpenIsRefused(t *testing.T) {
	noDuration := &durationpb.Duration{Nanos: -1, Seconds: 1}
	for name, row := range map[string]struct {
		first  *lockdv1.SessionRequest
		reason string
	}{
		"a message before Open": {acquire(1, &acq{Name: "job"}), "SESSION_NOT_OPEN"},
		"an empty message":      {&lockdv1.SessionRequest{}, "SESSION_NOT_OPEN"},
		"a short TTL":           {openWith(&lockdv1.Open{SessionTtl: seconds(0.5)}), "INVALID_DURATION"},
		"a TTL of zero":         {openWith(&lockdv1.Open{SessionTtl: seconds(0)}), "INVALID_DURATION"},
		"a negative TTL":        {openWith(&lockdv1.Open{SessionTtl: seconds(-5)}), "INVALID_DURATION"},
		"a TTL that is none":    {openWith(&lockdv1.Open{SessionTtl: noDuration}), "INVALID_DURATION"},
		"a long client name":    {openWith(&lockdv1.Open{ClientName: strings.Repeat("x", 129)}), "INVALID_CLIENT"},
		"an unknown choice":     {openWith(&lockdv1.Open{OnDisconnect: 99}), "INVALID_MESSAGE"},
		"a session to resume":   {openWith(&lockdv1.Open{Resume: &lockdv1.Resume{SessionId: "x"}}), "SESSION_EXPIRED"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				c := s.raw()
				c.send(row.first)
				wantReason(t, c.end(), row.reason)
				s.open(&lockdv1.Open{}).take(1, "job") // the server stands
			})
		})
	}
}

func openWith(o *lockdv1.Open) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Open{Open: o}}
}

func TestAStreamWithoutOpenIsClosed(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.raw()
		began := time.Now()
		wantReason(t, c.end(), "SESSION_NOT_OPEN")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}

// unknownArm is a request with a oneof arm that only a newer client knows.
func unknownArm(id uint64) *lockdv1.SessionRequest {
	m := &lockdv1.SessionRequest{RequestId: id}
	raw := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("new"))
	m.ProtoReflect().SetUnknown(raw)
	return m
}

func TestABadRequestIsAnsweredAndTheStreamLives(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	on := func(a *acq) *lockdv1.SessionRequest { return acquire(9, a) }
	release := func(id uint64, r *lockdv1.Release) *lockdv1.SessionRequest {
		return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Release{Release: r}}
	}
	nine := func(m *lockdv1.SessionRequest) *lockdv1.SessionRequest { m.RequestId = 9; return m }
	cancel, watch := nine(&lockdv1.SessionRequest{}), nine(&lockdv1.SessionRequest{})
	cancel.Message = &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: 1}}
	watch.Message = &lockdv1.SessionRequest_Watch{Watch: &lockdv1.Watch{}}
	items := []*lockdv1.AcquireItem{item("a", 0, 0, 0), item("b", 77, 0, 0)}
	for name, row := range map[string]struct {
		req    *lockdv1.SessionRequest
		reason string
	}{
		"no name":             {on(&acq{}), "INVALID_NAME"},
		"a long name":         {on(&acq{Name: long(513)}), "INVALID_NAME"},
		"control characters":  {on(&acq{Name: "a\nb"}), "INVALID_NAME"},
		"braces":              {on(&acq{Name: "a{b"}), "INVALID_NAME"},
		"name and names":      {on(&acq{Name: "a", Names: []string{"b"}}), "INVALID_NAME"},
		"a long holder":       {on(&acq{Name: "a", Holder: long(129)}), "INVALID_HOLDER"},
		"a reserved holder":   {on(&acq{Name: "a", Holder: "#1"}), "INVALID_HOLDER"},
		"a long actor":        {on(&acq{Name: "a", Actor: long(129)}), "INVALID_ACTOR"},
		"a long annotation":   {on(&acq{Name: "a", Annotation: long(4097)}), "INVALID_ANNOTATION"},
		"an unknown kind":     {on(&acq{Name: "a", Kind: 77}), "INVALID_KIND"},
		"permits of a lock":   {on(&acq{Name: "a", Permits: 2}), "INVALID_PERMITS"},
		"a negative wait":     {on(&acq{Name: "a", Wait: seconds(-1)}), "INVALID_DURATION"},
		"an absurd wait":      {on(&acq{Name: "a", Wait: &durationpb.Duration{Seconds: 1 << 60}}), "INVALID_DURATION"},
		"a wait over the max": {on(&acq{Name: "a", Wait: seconds(1e6)}), "INVALID_DURATION"},
		"a negative lease":    {on(&acq{Name: "a", Lease: seconds(-1)}), "INVALID_DURATION"},
		"a lease of zero":     {on(&acq{Name: "a", Lease: seconds(0)}), "INVALID_DURATION"},
		"an absurd lease":     {on(&acq{Name: "a", Lease: seconds(1e9)}), "INVALID_DURATION"},
		"a limit of a lock":   {on(&acq{Name: "a", Limit: 2}), "INVALID_PERMITS"},
		"too many permits":    {on(&acq{Name: "a", Kind: semaphore, Permits: 3, Limit: 2}), "INVALID_PERMITS"},
		"permits of nothing":  {on(&acq{Name: "a", Kind: semaphore}), "LOCK_CONFIG_MISMATCH"},
		"a name twice":        {on(&acq{Names: []string{"a", "b", "a"}}), "INVALID_NAME"},
		"an empty name":       {on(&acq{Names: []string{"a", ""}}), "INVALID_NAME"},
		"too many names":      {on(&acq{Names: []string{"a", "b", "c", "d", "e"}}), "QUOTA_NAMES"},
		"a bad item":          {on(&acq{Items: items}), "INVALID_KIND"},
		"a holder of permits": {on(&acq{Name: "a", Kind: semaphore, Limit: 1, Holder: "h"}), "INVALID_HOLDER"},
		"a repeated id":       {acquire(1, &acq{Name: "a"}), "REQUEST_ID_REPEATED"},
		"no id":               {acquire(0, &acq{Name: "a"}), "INVALID_REQUEST_ID"},
		"a second Open":       {nine(openWith(&lockdv1.Open{})), "SESSION_ALREADY_OPEN"},
		"an unknown arm":      {unknownArm(9), "UNIMPLEMENTED"},
		"not held":            {release(9, &lockdv1.Release{Name: "free", Holder: "#1"}), "LOCK_NOT_HELD"},
		"a stale fence":       {release(9, &lockdv1.Release{Name: "mine", Holder: "#1", Fence: 1}), "FENCE_STALE"},
		"cancel of nothing":   {cancel, "REQUEST_NOT_WAITING"},
		"a watch of no name":  {watch, "INVALID_NAME"},
		"a batch in a batch":  {inBatch(nine(inBatch())), "INVALID_MESSAGE"},
		"Open in a batch":     {inBatch(nine(openWith(&lockdv1.Open{}))), "INVALID_MESSAGE"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				c := s.open(&lockdv1.Open{})
				c.take(1, "mine")
				c.send(row.req)
				m := c.recv()
				f := m.GetResult().GetFailure()
				if codes.Code(f.GetCode()) != codeOf(row.reason) || f.GetReason() != row.reason {
					t.Errorf("got %v, want %s", m, row.reason)
				}
				if want := row.req.GetRequestId(); want != 0 && m.GetRequestId() != want {
					t.Errorf("answered request %d, want %d", m.GetRequestId(), want)
				}
				c.take(10, "other")
			})
		})
	}
}

func inBatch(requests ...*lockdv1.SessionRequest) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{
		Message: &lockdv1.SessionRequest_Batch{Batch: &lockdv1.RequestBatch{Requests: requests}},
	}
}

// badText is an Acquire whose name is not UTF-8. The Go stubs refuse to write that; as an unknown field it passes.
func badText(id uint64) *lockdv1.SessionRequest {
	m := &lockdv1.SessionRequest{RequestId: id}
	name := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{0xff, 0xfe})
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), name))
	return m
}

func TestAMessageThatCannotBeReadIsRefused(t *testing.T) {
	large := &acq{Name: strings.Repeat("x", 1<<20)}
	for name, row := range map[string]struct {
		with, without *lockdv1.SessionRequest
		reason        string
	}{
		"invalid UTF-8": {badText(9), badText(0), "INVALID_MESSAGE"},
		"too large":     {acquire(9, large), acquire(0, large), "FRAME_TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				c := s.open(&lockdv1.Open{})
				c.send(row.with)
				m := c.recv()
				if f := m.GetResult().GetFailure(); m.GetRequestId() != 9 || f.GetReason() != row.reason {
					t.Errorf("with an id: got %v", m)
				}
				c.take(10, "job")
				c.send(row.without)
				wantReason(t, c.end(), row.reason)
				s.open(&lockdv1.Open{}).take(1, "other")
			})
		})
	}
}

func TestAFrameFarOverTheLimitEndsOnlyItsStream(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		_ = c.Send(acquire(1, &acq{Name: strings.Repeat("x", 5<<20)}))
		if st := status.Convert(c.end()); st.Code() != codes.ResourceExhausted {
			t.Errorf("got %v", st)
		}
		s.open(&lockdv1.Open{}).take(1, "job")
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
				if err := end(a); err != nil {
					t.Fatal(err)
				}
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

func TestABatchOfTooManyRequestsEndsTheSession(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.open(&lockdv1.Open{})
		batch := make([]*lockdv1.SessionRequest, 1025)
		for i := range batch {
			batch[i] = acquire(uint64(i)+1, &acq{})
		}
		c.send(inBatch(batch...))
		if st := status.Convert(c.end()); reasonOf(st) != "INVALID_MESSAGE" || !strings.Contains(st.Message(), "1024") {
			t.Errorf("got %v", st)
		}
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
