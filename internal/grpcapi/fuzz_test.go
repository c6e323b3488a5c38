package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// FuzzRequest sends whatever decodes as a request on an open session: the server must stand, and answer the next one.
func FuzzRequest(f *testing.F) {
	for _, m := range []*lockdv1.SessionRequest{
		openWith(&lockdv1.Open{}), acquire(1, &lockdv1.Acquire{Name: "job", Lease: seconds(1), Wait: seconds(0)}),
		acquire(1<<63, &lockdv1.Acquire{Names: []string{"a", "b"}, Kind: -1, Permits: 1 << 31}), unknownArm(7),
		acquire(1, &lockdv1.Acquire{
			Names: []string{"a", "b"}, Kind: lockdv1.LockKind_LOCK_KIND_SEMAPHORE, Permits: 2,
			Limit: 1 << 31,
		}),
		acquire(1, &lockdv1.Acquire{Items: []*lockdv1.AcquireItem{
			{Name: "a"}, {Name: "b", Kind: lockdv1.LockKind_LOCK_KIND_READ}, {Name: "b", Permits: 7}, {},
		}}),
		acquire(1, &lockdv1.Acquire{Items: []*lockdv1.AcquireItem{
			{Name: "c", Kind: lockdv1.LockKind_LOCK_KIND_SEMAPHORE, Limit: 2},
			{Name: "d", Kind: lockdv1.LockKind_LOCK_KIND_FAIR},
			{Name: "e", Kind: lockdv1.LockKind_LOCK_KIND_WRITE},
		}, Wait: seconds(0), Holder: "h"}),
		inBatch(acquire(2, &lockdv1.Acquire{Name: "a{b"}), inBatch(unknownArm(3))),
		{RequestId: 3, Message: &lockdv1.SessionRequest_Release{}},
		{RequestId: 4, Message: &lockdv1.SessionRequest_Extend{}},
		{RequestId: 5, Message: &lockdv1.SessionRequest_Cancel{}},
		{Message: &lockdv1.SessionRequest_Goodbye{}},
	} {
		raw, err := proto.Marshal(m)
		must(f, err)
		f.Add(raw)
	}
	shared := start(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &lockdv1.SessionRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		s := &server{t: t, conn: shared.conn, b: shared.b}
		c := s.open(&lockdv1.Open{})
		defer c.cancel()
		c.send(m)
		// Fails when the first was a Goodbye; Recv then tells the end.
		_ = c.Send(&lockdv1.SessionRequest{
			Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{SentId: 77}},
		})
		timer := time.AfterFunc(10*time.Second, c.cancel)
		defer timer.Stop()
		for {
			r, err := c.Recv()
			if r.GetHeartbeatAck().GetSentId() == 77 {
				return
			}
			if err != nil { // after a Goodbye the stream ends
				if timer.Stop() {
					return
				}
				t.Fatalf("no answer: %v", err)
			}
		}
	})
}
