package e2e

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// rawClient is a client of the stream as docs/protocol.md describes it, on the generated stubs. It shares nothing with
// the SDK.
type rawClient struct {
	t     *testing.T
	open  *lockdv1.Open
	token string
	id    string

	mu      sync.Mutex // guards the fields below
	stream  grpc.BidiStreamingClient[lockdv1.SessionRequest, lockdv1.SessionResponse]
	cancel  context.CancelFunc
	over    chan struct{} // closed when the stream has ended
	ended   error         // why
	epoch   uint64
	last    uint64
	answers map[uint64]chan *lockdv1.SessionResponse
	sent    map[uint64]time.Time
	beats   uint64
	holds   map[rawKey]*rawHold
	lost    []*lockdv1.Lost
	queued  int
}

type rawKey struct {
	name   string
	kind   lockdv1.LockKind
	holder string
}

// rawHold is a hold with the deadline that the client counts.
type rawHold struct {
	*lockdv1.HeldLock
	until time.Time
}

func rawKeyOf(h *lockdv1.Hold) rawKey { return rawKey{h.GetName(), h.GetKind(), h.GetHolder()} }

// startRaw opens a session.
func startRaw(t *testing.T, addr string, open *lockdv1.Open) *rawClient {
	t.Helper()
	r := &rawClient{t: t, open: open, holds: make(map[rawKey]*rawHold)}
	if open.Features == nil {
		open.Features = []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}
	}
	if _, err := r.connect(addr, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cut)
	return r
}

// resume goes on with the session elsewhere.
func (r *rawClient) resume(addr string) (*lockdv1.Opened, error) {
	r.mu.Lock()
	r.epoch++
	resume := &lockdv1.Resume{SessionId: r.id, ResumeToken: r.token, Epoch: r.epoch, LastRequestId: r.last}
	for _, h := range r.holds {
		resume.Holds = append(resume.Holds, h.HeldLock)
	}
	r.mu.Unlock()
	return r.connect(addr, resume)
}

func (r *rawClient) mustResume(addr string) *lockdv1.Opened {
	r.t.Helper()
	o, err := r.resume(addr)
	if err != nil {
		r.t.Fatalf("resume: %v", err)
	}
	return o
}

func (r *rawClient) connect(addr string, resume *lockdv1.Resume) (*lockdv1.Opened, error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, err
	}
	open := &lockdv1.Open{
		ClientName: "raw", SessionTtl: r.open.GetSessionTtl(), OnDisconnect: r.open.GetOnDisconnect(),
		Features: r.open.GetFeatures(), Resume: resume,
	}
	sent := time.Now()
	// Recv says why it failed
	_ = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: open}})
	m, err := stream.Recv()
	if err != nil {
		cancel()
		_ = conn.Close()
		return nil, err
	}
	r.attach(stream, func() { cancel(); _ = conn.Close() }, sent, m.GetOpened())
	return m.GetOpened(), nil
}

func (r *rawClient) attach(stream grpc.BidiStreamingClient[lockdv1.SessionRequest, lockdv1.SessionResponse],
	cancel func(), sent time.Time, o *lockdv1.Opened,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id, r.token, r.epoch, r.last = o.GetSessionId(), o.GetResumeToken(), max(r.epoch, 1), max(r.last, 1)
	r.stream, r.cancel, r.over = stream, cancel, make(chan struct{})
	r.answers, r.sent, r.beats = make(map[uint64]chan *lockdv1.SessionResponse), map[uint64]time.Time{0: sent}, 0
	there := make(map[rawKey]*rawHold)
	for _, h := range o.GetResumed() {
		key := rawKeyOf(h.GetHold())
		// A deadline that had passed stays passed.
		if mine := r.holds[key]; mine != nil && mine.GetHold().GetFence() == h.GetHold().GetFence() &&
			time.Now().Before(mine.until) {
			mine.until = later(mine.until, r.deadlineLocked(h.GetValidity()))
			there[key] = mine
		}
	}
	r.holds = there
	go r.read(stream, r.over)
	go r.beat(o.GetHeartbeatInterval().AsDuration(), stream, r.over)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (r *rawClient) deadlineLocked(v *lockdv1.Validity) time.Time {
	return r.sent[v.GetAnchor()].Add(v.GetAnchorAge().AsDuration() + v.GetRemaining().AsDuration())
}

func (r *rawClient) read(stream grpc.BidiStreamingClient[lockdv1.SessionRequest, lockdv1.SessionResponse],
	over chan struct{},
) {
	for {
		m, err := stream.Recv()
		r.mu.Lock()
		if r.stream != stream {
			r.mu.Unlock()
			return
		}
		if err != nil {
			r.ended = err
			close(over)
			r.mu.Unlock()
			return
		}
		r.takeLocked(m)
		r.mu.Unlock()
	}
}

func (r *rawClient) takeLocked(m *lockdv1.SessionResponse) {
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Queued:
		r.queued++
		return
	case *lockdv1.SessionResponse_Granted:
		for _, h := range t.Granted.GetHolds() {
			r.holds[rawKeyOf(h)] = &rawHold{
				&lockdv1.HeldLock{Hold: h, HoldCount: t.Granted.GetHoldCount(), Auto: t.Granted.GetAuto()},
				r.deadlineLocked(t.Granted.GetValidity()),
			}
		}
	case *lockdv1.SessionResponse_HeartbeatAck:
		if ack := t.HeartbeatAck; ack.GetValidFor() != nil {
			for _, h := range r.holds {
				if h.GetAuto() && time.Now().Before(h.until) {
					h.until = later(h.until, r.sent[ack.GetSentId()].Add(ack.GetValidFor().AsDuration()))
				}
			}
		}
	case *lockdv1.SessionResponse_Lost:
		r.lost = append(r.lost, t.Lost)
		delete(r.holds, rawKeyOf(t.Lost.GetHold()))
	}
	if c := r.answers[m.GetRequestId()]; c != nil {
		c <- m
	}
}

func (r *rawClient) beat(every time.Duration,
	stream grpc.BidiStreamingClient[lockdv1.SessionRequest, lockdv1.SessionResponse], over chan struct{},
) {
	for {
		select {
		case <-time.After(every):
		case <-over:
			return
		case <-stream.Context().Done():
			return
		}
		r.mu.Lock()
		if r.stream != stream {
			r.mu.Unlock()
			return
		}
		r.beats++
		r.sent[r.beats] = time.Now()
		_ = stream.Send(&lockdv1.SessionRequest{
			Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{SentId: r.beats}},
		})
		r.mu.Unlock()
	}
}

// cut ends the stream without a word.
func (r *rawClient) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream = nil
	r.cancel()
}

// send begins a request.
func (r *rawClient) send(m *lockdv1.SessionRequest) (id uint64, answer <-chan *lockdv1.SessionResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	m.RequestId = r.last
	c := make(chan *lockdv1.SessionResponse, 1)
	r.answers[r.last] = c
	_ = r.stream.Send(m)
	return r.last, c
}

// ask makes a request and waits for its answer.
func (r *rawClient) ask(m *lockdv1.SessionRequest) *lockdv1.SessionResponse {
	r.t.Helper()
	_, c := r.send(m)
	select {
	case a := <-c:
		return a
	case <-time.After(patience):
		r.t.Fatalf("no answer to %v; the stream ended with %v", m, r.whyEnded())
		return nil
	}
}

func (r *rawClient) whyEnded() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func acquireOf(a *lockdv1.Acquire) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: a}}
}

func releaseOf(h *lockdv1.Hold) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{Release: &lockdv1.Release{
		Name: h.GetName(), Kind: h.GetKind(), Holder: h.GetHolder(), Fence: h.GetFence(),
	}}}
}

func extendOf(h *lockdv1.Hold, lease time.Duration, shorten bool) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Extend{Extend: &lockdv1.Extend{
		Name: h.GetName(), Kind: h.GetKind(), Holder: h.GetHolder(), Fence: h.GetFence(), Lease: durationpb.New(lease),
		MayShorten: shorten,
	}}}
}

// take asks for a lock, and must get it.
func (r *rawClient) take(a *lockdv1.Acquire) *lockdv1.Hold {
	r.t.Helper()
	m := r.ask(acquireOf(a))
	if m.GetGranted() == nil {
		r.t.Fatalf("%v was answered %v", a, m)
	}
	return m.GetGranted().GetHolds()[0]
}

// free gives a hold back, and forgets it once.
func (r *rawClient) free(h *lockdv1.Hold) *lockdv1.SessionResponse {
	r.t.Helper()
	m := r.ask(releaseOf(h))
	if m.GetReleased().GetRemaining() == 0 {
		r.forget(h)
	}
	return m
}

func (r *rawClient) forget(h *lockdv1.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.holds, rawKeyOf(h))
}

// told is what was told as lost, and why the stream ended if it did.
func (r *rawClient) told() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lost) > 0 {
		return errors.New("lost " + r.lost[0].String())
	}
	return r.ended
}

// believes says until when the client believes to hold something.
func (r *rawClient) believes(h *lockdv1.Hold) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine := r.holds[rawKeyOf(h)]; mine != nil {
		return mine.until
	}
	return time.Time{}
}

// beginExtend sends an Extend. One that may shorten counts from here on.
func (r *rawClient) beginExtend(h *lockdv1.Hold, lease time.Duration, shorten bool) <-chan *lockdv1.SessionResponse {
	r.mu.Lock()
	if mine := r.holds[rawKeyOf(h)]; mine != nil && shorten {
		if end := time.Now().Add(lease - lease/100 - 2*time.Millisecond); end.Before(mine.until) {
			mine.until = end
		}
	}
	r.mu.Unlock()
	_, answer := r.send(extendOf(h, lease, shorten))
	return answer
}

// extend makes the lease of a hold fixed.
func (r *rawClient) extend(h *lockdv1.Hold, lease time.Duration, shorten bool) {
	r.t.Helper()
	var m *lockdv1.SessionResponse
	select {
	case m = <-r.beginExtend(h, lease, shorten):
	case <-time.After(patience):
	}
	if m.GetExtended() == nil {
		r.t.Fatalf("the extension was answered %v; the stream ended with %v", m, r.whyEnded())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine := r.holds[rawKeyOf(h)]; mine != nil && time.Now().Before(mine.until) {
		mine.until, mine.Auto = r.deadlineLocked(m.GetExtended().GetValidity()), false
	}
}
