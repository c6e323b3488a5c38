package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

const (
	addrA, addrB = "10.0.0.1:7420", "10.0.0.2:7420"
	both         = addrA + "," + addrB
)

var (
	// errCut ends a stream as if the connection broke, errGone ends its session, too.
	errCut  = status.Error(codes.Unavailable, "cable cut")
	errGone = refusal(codes.Aborted, "SUPERSEDED")
)

// fake is a server for the faults that a real one cannot be made to show. It grants locks to whoever is first, all as
// if they were exclusive, and a test's hook can answer anything in its place.
type fake struct {
	lockdv1.UnimplementedSessionServiceServer
	ttl  time.Duration
	grpc *grpc.Server

	mu       sync.Mutex // guards the fields below
	lis      *bufconn.Listener
	hook     func(*fakeStream, *lockdv1.SessionRequest) bool // true: the hook has dealt with it
	streams  []*fakeStream
	records  map[string]*fakeRecord // by session
	fence    uint64
	held     map[string]*fakeHold
	waiting  []fakeWaiter
	watched  string          // the last name; empty after Unwatch
	down     map[string]bool // addresses that cannot be reached
	far      time.Duration   // what a connection takes
	valid    time.Duration   // what a heartbeat is answered with, if it is not the TTL
	lasts    time.Duration   // what is told to be left of the MaxHold of what lasts until then; 0: nothing does
	dialled  []string
	old      bool // it does not know max_hold
	frames   int  // messages received
	requests int
}

// fakeRecord is what the fake keeps of a session.
type fakeRecord struct {
	epoch  uint64
	last   uint64 // the greatest request id
	stream *fakeStream
}

type fakeHold struct {
	session    string
	holder     string
	fence      uint64
	count      uint32
	acquiredBy uint64
}

type fakeWaiter struct {
	stream  *fakeStream
	id      uint64
	acquire *lockdv1.Acquire
}

type fakeStream struct {
	fake   *fake
	stream grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]
	open   *lockdv1.Open
	stop   chan error
	id     string // of its session

	sendMu sync.Mutex

	mu        sync.Mutex // guards the fields below
	heartbeat uint64
	heardAt   time.Time
}

func startFake(t testing.TB, ttl time.Duration) *fake {
	f := &fake{
		ttl: ttl, held: make(map[string]*fakeHold), records: make(map[string]*fakeRecord), down: make(map[string]bool),
	}
	f.start()
	t.Cleanup(func() { f.grpc.Stop() })
	return f
}

// bubble runs a test against a fake server with a clock of its own.
func bubble(t *testing.T, ttl time.Duration, test func(t *testing.T, f *fake)) {
	synctest.Test(t, func(t *testing.T) { test(t, startFake(t, ttl)) })
}

func (f *fake) start() {
	lis, srv := bufconn.Listen(1<<20), grpc.NewServer()
	f.mu.Lock()
	f.lis, f.grpc = lis, srv
	f.mu.Unlock()
	lockdv1.RegisterSessionServiceServer(srv, f)
	go func() { _ = srv.Serve(lis) }()
}

func (f *fake) dial(t testing.TB, opts ...client.Option) *client.Client {
	return f.dialAt(t, "passthrough:fake", opts...)
}

// dialAt is dial for several addresses, which all lead to this fake.
func (f *fake) dialAt(t testing.TB, addr string, opts ...client.Option) *client.Client {
	t.Helper()
	return dial(t, addr, append(opts, client.WithDialOptions(grpc.WithContextDialer(f.connect)))...)
}

// connect is how a client comes to an address.
func (f *fake) connect(ctx context.Context, at string) (net.Conn, error) {
	f.mu.Lock()
	lis, down, far := f.lis, f.down[at], f.far
	f.dialled = append(f.dialled, at)
	f.mu.Unlock()
	if down {
		return nil, errors.New("cannot be reached")
	}
	select {
	case <-time.After(far):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return lis.DialContext(ctx)
}

func (f *fake) setHook(hook func(*fakeStream, *lockdv1.SessionRequest) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// stream is the n-th one on which a session began or went on, or the last one if n is negative.
func (f *fake) stream(n int) *fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < 0 {
		n = len(f.streams) - 1
	}
	return f.streams[n]
}

// names are those that are held.
func (f *fake) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.held))
}

// Session is one stream.
func (f *fake) Session(stream grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	s := &fakeStream{fake: f, stream: stream, open: m.GetOpen(), stop: make(chan error, 1), heardAt: time.Now()}
	if s.hooked(m) {
		select {
		case err = <-s.stop:
			return err
		case <-stream.Context().Done():
			return nil
		}
	}
	if err := f.begin(s, m.GetRequestId()); err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() { received <- s.receive() }()
	select {
	case err = <-received:
	case err = <-s.stop:
	}
	f.end(s, status.Code(err) == codes.Aborted)
	if errors.Is(err, errGoodbye) {
		return nil
	}
	return err
}

// begin opens a session, or has one go on in another stream.
func (f *fake) begin(s *fakeStream, id uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ttl := f.ttl
	if d := s.open.GetSessionTtl(); d != nil {
		ttl = d.AsDuration()
	}
	opened := &lockdv1.Opened{
		SessionTtl: durationpb.New(ttl), HeartbeatInterval: durationpb.New(ttl / 3),
		Limits: &lockdv1.Limits{NameBytes: 512, NamesPerAcquire: 4, MaxHold: durationpb.New(time.Hour)},
	}
	if f.old {
		opened.Limits.MaxHold = nil
	}
	if r := s.open.GetResume(); r != nil {
		if err := f.resumeLocked(s, r, opened); err != nil {
			return err
		}
	} else {
		s.id = fmt.Sprint("session ", len(f.records)+1)
		f.records[s.id] = &fakeRecord{epoch: 1, stream: s}
	}
	opened.SessionId, opened.ResumeToken = s.id, "token of "+s.id
	f.streams = append(f.streams, s)
	s.send(id, opened)
	return nil
}

func (f *fake) resumeLocked(s *fakeStream, r *lockdv1.Resume, opened *lockdv1.Opened) error {
	record := f.records[r.GetSessionId()]
	switch {
	case record == nil || r.GetResumeToken() != "token of "+r.GetSessionId():
		return refusal(codes.NotFound, "SESSION_EXPIRED")
	case r.GetEpoch() <= record.epoch:
		return errGone
	case r.GetLastRequestId() < record.last:
		return refusal(codes.InvalidArgument, "INVALID_MESSAGE")
	}
	before := record.stream
	s.id, *record = r.GetSessionId(), fakeRecord{r.GetEpoch(), r.GetLastRequestId(), s}
	for _, claim := range r.GetHolds() {
		hold := claim.GetHold()
		if h := f.held[hold.GetName()]; h == nil || h.session != s.id || h.holder != hold.GetHolder() ||
			h.fence != hold.GetFence() || h.acquiredBy != hold.GetAcquiredBy() {
			opened.Lost = append(opened.Lost, &lockdv1.Lost{Hold: hold, Reason: lockdv1.Lost_REASON_FORCED})
			continue
		}
		f.held[hold.GetName()].count = claim.GetHoldCount()
		claim.Validity = s.validity(f.ttl)
		opened.Resumed = append(opened.Resumed, claim)
	}
	select {
	case before.stop <- errGone:
	default:
	}
	return nil
}

var errGoodbye = refusal(codes.Aborted, "GOODBYE")

func (s *fakeStream) receive() error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // however the client left
		}
		s.fake.mu.Lock()
		s.fake.frames++
		s.fake.mu.Unlock()
		requests := []*lockdv1.SessionRequest{m}
		if b := m.GetBatch(); b != nil {
			requests = b.GetRequests()
		}
		for _, r := range requests {
			if r.GetGoodbye() != nil {
				if s.hooked(r) { // the stream breaks
					return errCut
				}
				return errGoodbye
			}
			s.handle(r)
		}
	}
}

// end ends what the session of a stream waits for, and if it is over what it holds.
func (f *fake) end(s *fakeStream, over bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = slices.DeleteFunc(f.waiting, func(w fakeWaiter) bool { return w.stream == s })
	if over && f.records[s.id].stream == s {
		maps.DeleteFunc(f.held, func(_ string, h *fakeHold) bool { return h.session == s.id })
		f.passOnLocked()
	}
}

func (f *fake) passOnLocked() { f.waiting = slices.DeleteFunc(f.waiting, f.grantLocked) }

func (s *fakeStream) hooked(r *lockdv1.SessionRequest) bool {
	s.fake.mu.Lock()
	hook := s.fake.hook
	s.fake.mu.Unlock()
	return hook != nil && hook(s, r)
}

func (s *fakeStream) handle(r *lockdv1.SessionRequest) {
	if b := r.GetHeartbeat(); b != nil {
		s.mu.Lock()
		s.heartbeat, s.heardAt = b.GetSentId(), time.Now()
		s.mu.Unlock()
	}
	if !s.hooked(r) {
		s.serve(r)
	}
}

func (s *fakeStream) serve(r *lockdv1.SessionRequest) {
	f := s.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests++
	switch t := r.GetMessage().(type) {
	case *lockdv1.SessionRequest_Heartbeat:
		s.send(0, &lockdv1.HeartbeatAck{SentId: t.Heartbeat.GetSentId(), ValidFor: durationpb.New(cmp.Or(f.valid, f.ttl))})
	case *lockdv1.SessionRequest_Acquire:
		f.acquireLocked(fakeWaiter{s, r.GetRequestId(), t.Acquire})
	case *lockdv1.SessionRequest_Release:
		s.send(r.GetRequestId(), f.releaseLocked(s, t.Release))
	case *lockdv1.SessionRequest_Cancel:
		f.unqueueLocked(s, t.Cancel.GetTargetId(), lockdv1.NotGranted_CAUSE_CANCELLED)
		s.send(r.GetRequestId(), &lockdv1.Result{})
	case *lockdv1.SessionRequest_Extend:
		s.send(r.GetRequestId(), &lockdv1.Extended{Validity: s.validity(f.lease(t.Extend))})
	case *lockdv1.SessionRequest_SetLimit:
		s.send(r.GetRequestId(), &lockdv1.LimitSet{Previous: t.SetLimit.GetLimit() + 1})
	case *lockdv1.SessionRequest_Look:
		s.send(r.GetRequestId(), &lockdv1.Looked{Lock: &lockdv1.LockState{Name: t.Look.GetName()}})
	case *lockdv1.SessionRequest_Watch, *lockdv1.SessionRequest_Unwatch:
		f.watched = r.GetWatch().GetName()
		s.send(r.GetRequestId(), &lockdv1.Result{})
	}
}

// lease is how long a lease is that was asked for.
func (f *fake) lease(r interface{ GetLease() *durationpb.Duration }) time.Duration {
	return cmp.Or(r.GetLease().AsDuration(), f.ttl)
}

func (s *fakeStream) validity(remaining time.Duration) *lockdv1.Validity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &lockdv1.Validity{
		Remaining: durationpb.New(cmp.Or(s.fake.lasts, remaining)), UntilMaxHold: s.fake.lasts > 0,
		Anchor: s.heartbeat, AnchorAge: durationpb.New(time.Since(s.heardAt)),
	}
}

func (f *fake) acquireLocked(w fakeWaiter) {
	wait := w.acquire.GetWait()
	switch {
	case f.grantLocked(w):
	case wait != nil && wait.AsDuration() == 0:
		w.stream.send(w.id, &lockdv1.NotGranted{
			Cause: lockdv1.NotGranted_CAUSE_HELD, RetryAfter: durationpb.New(f.ttl), HeldBy: "s:x",
		})
	default:
		w.stream.send(w.id, &lockdv1.Queued{Position: uint32(len(f.waiting))})
		f.waiting = append(f.waiting, w)
		if wait != nil {
			time.AfterFunc(wait.AsDuration(), func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.unqueueLocked(w.stream, w.id, lockdv1.NotGranted_CAUSE_TIMED_OUT)
			})
		}
	}
}

// grantLocked grants all that a request asks for if it is free.
func (f *fake) grantLocked(w fakeWaiter) bool {
	a, s := w.acquire, w.stream
	items := a.GetItems()
	if len(items) == 0 {
		items = []*lockdv1.AcquireItem{{Name: a.GetName(), Kind: a.GetKind()}}
	}
	for _, i := range items {
		if h := f.held[i.GetName()]; h != nil && (a.GetHolder() == "" || h.holder != a.GetHolder() || h.session != s.id) {
			return false
		}
	}
	g := &lockdv1.Granted{Validity: s.validity(f.lease(a)), Auto: a.GetLease() == nil, MaxHold: a.GetMaxHold()}
	for _, i := range items {
		h := f.held[i.GetName()]
		if h == nil {
			f.fence++
			h = &fakeHold{s.id, cmp.Or(a.GetHolder(), fmt.Sprint("#", w.id)), f.fence, 0, w.id}
			f.held[i.GetName()] = h
		}
		h.count++
		g.HoldCount = h.count
		g.Holds = append(g.Holds, &lockdv1.Hold{
			Name: i.GetName(), Kind: i.GetKind(), Holder: h.holder, Fence: h.fence, AcquiredBy: h.acquiredBy,
		})
	}
	s.send(w.id, g)
	return true
}

func (f *fake) releaseLocked(s *fakeStream, r *lockdv1.Release) proto.Message {
	h := f.held[r.GetName()]
	switch {
	case h == nil || h.session != s.id || h.holder != r.GetHolder():
		return failure(codes.FailedPrecondition, "LOCK_NOT_HELD")
	case r.GetKeep() > 0:
		return &lockdv1.Released{Remaining: r.GetKeep()}
	}
	if h.count--; h.count == 0 {
		delete(f.held, r.GetName())
		f.passOnLocked()
	}
	return &lockdv1.Released{Remaining: h.count}
}

func (f *fake) unqueueLocked(s *fakeStream, id uint64, cause lockdv1.NotGranted_Cause) {
	f.waiting = slices.DeleteFunc(f.waiting, func(w fakeWaiter) bool {
		mine := w.stream == s && w.id == id
		if mine {
			s.send(id, &lockdv1.NotGranted{Cause: cause})
		}
		return mine
	})
}

// send sends an answer, or a push if id is 0.
func (s *fakeStream) send(id uint64, message proto.Message) {
	m, of := &lockdv1.SessionResponse{RequestId: id}, message.ProtoReflect()
	fields := m.ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	for i := range fields.Len() {
		if fields.Get(i).Message() == of.Descriptor() {
			m.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(of))
		}
	}
	s.sendRaw(m)
}

func (s *fakeStream) sendRaw(m *lockdv1.SessionResponse) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	_ = s.stream.Send(m) // fails when the stream is over, and then nobody needs it
}

func failure(code codes.Code, reason string) *lockdv1.Result {
	return &lockdv1.Result{Failure: &lockdv1.Failure{Code: int32(code), Message: "no", Reason: reason}}
}

func refusal(code codes.Code, reason string) error {
	st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "lockd.io"})
	if err != nil {
		panic(err)
	}
	return st.Err()
}
