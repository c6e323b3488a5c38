package e2e

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

func mustLock(t *testing.T, c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustUnlock(t *testing.T, l *client.Lock) {
	t.Helper()
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// stream is a client that works by hand. It sends no heartbeats.
type stream struct {
	t *testing.T
	lockdv1.SessionService_SessionClient
	cancel context.CancelFunc
}

// raw begins a stream without Open.
func raw(t *testing.T, conn *grpc.ClientConn) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &stream{t: t, SessionService_SessionClient: c, cancel: cancel}
}

func open(t *testing.T, conn *grpc.ClientConn, o *lockdv1.Open) *stream {
	t.Helper()
	c := raw(t, conn)
	c.send(openWith(o))
	if m := c.recv(); m.GetOpened() == nil {
		t.Fatalf("got %v, want Opened", m)
	}
	return c
}

func openWith(o *lockdv1.Open) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Open{Open: o}}
}

func (c *stream) send(m *lockdv1.SessionRequest) {
	c.t.Helper()
	if err := c.Send(m); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

func (c *stream) recv() *lockdv1.SessionResponse {
	c.t.Helper()
	m, err := c.Recv()
	if err != nil {
		c.t.Fatalf("recv: %v", err)
	}
	return m
}

// answer reads up to the answer of a request; what else comes is not looked at.
func (c *stream) answer(id uint64) *lockdv1.SessionResponse {
	c.t.Helper()
	for {
		if m := c.recv(); m.GetRequestId() == id && m.GetQueued() == nil {
			return m
		}
	}
}

func (c *stream) take(id uint64, name string) *lockdv1.Hold {
	c.t.Helper()
	c.send(acquire(id, &lockdv1.Acquire{Name: name}))
	m := c.answer(id)
	if m.GetGranted() == nil {
		c.t.Fatalf("got %v, want a grant for %d", m, id)
	}
	return m.GetGranted().GetHolds()[0]
}

// end reads the stream to its end and returns why it ended.
func (c *stream) end() *status.Status {
	for {
		if _, err := c.Recv(); err != nil {
			return status.Convert(err)
		}
	}
}

// beat sends heartbeats until the returned function is called. Nobody else may send then.
func (c *stream) beat(every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for id := uint64(1); ; id++ {
			if c.Send(heartbeat(id)) != nil {
				return
			}
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func heartbeat(id uint64) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{SentId: id}}}
}

func acquire(id uint64, a *lockdv1.Acquire) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Acquire{Acquire: a}}
}

func release(id uint64, h *lockdv1.Hold) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
		Name: h.GetName(), Kind: h.GetKind(), Holder: h.GetHolder(), Fence: h.GetFence(),
	}}}
}

func seconds(n float64) *durationpb.Duration {
	return durationpb.New(time.Duration(n * float64(time.Second)))
}

func reasonOf(st *status.Status) string {
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return "no ErrorInfo"
}
