package client_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// fake is a server for the faults that a real one cannot be made to show. It grants locks to whoever is first, all as
// if they were exclusive, and a test's hook can answer anything in its place.
type fake struct {
	lockdv1.UnimplementedSessionServiceServer
	ttl  time.Duration
	grpc *grpc.Server
	lis  *bufconn.Listener

	mu       sync.Mutex
	hook     func(*fakeSession, *lockdv1.SessionRequest) bool // true: the hook has dealt with it
	sessions []*fakeSession
	fence    uint64
	held     map[string]*fakeHold
	several  []fakeWaiter // for more than one name
	watched  string       // the last name; empty after Unwatch

	records  map[string]*fakeRecord
	down     map[string]bool // addresses that cannot be reached
	far      time.Duration   // what a connection takes
	dialled  []string
	frames   int // messages received
	requests int
}

type fakeHold struct {
	session *fakeSession
	holder  string
	fence   uint64
	count   uint32
	waiting []fakeWaiter
}

type fakeWaiter struct {
	session *fakeSession
	id      uint64
	acquire *lockdv1.Acquire
}

type fakeSession struct {
	fake   *fake
	stream grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]
	open   *lockdv1.Open
	stop   chan error
	id     string      // if it can be resumed
	gone   atomic.Bool // it ended by Goodbye

	sendMu sync.Mutex

	mu        sync.Mutex // guards the fields below
	heartbeat uint64
	heardAt   time.Time
}

func startFake(t testing.TB, ttl time.Duration) *fake {
	t.Helper()
	f := &fake{ttl: ttl, held: map[string]*fakeHold{}}
	f.start()
	t.Cleanup(func() { f.grpc.Stop() })
	return f
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
	t.Helper()
	return f.dialAt(t, "passthrough:fake", opts...)
}

// dialAt is dial for several addresses, which all lead to this fake.
func (f *fake) dialAt(t testing.TB, addr string, opts ...client.Option) *client.Client {
	t.Helper()
	opts = append([]client.Option{client.WithDialOptions(grpc.WithContextDialer(f.connect))}, opts...)
	c, err := client.Dial(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *fake) setHook(hook func(*fakeSession, *lockdv1.SessionRequest) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// session is the n-th one that was opened.
func (f *fake) session(n int) *fakeSession {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sessions[n]
}

func (f *fake) watching() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watched
}

func (f *fake) holder(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h := f.held[name]; h != nil {
		return h.holder
	}
	return ""
}

// Session is one session.
func (f *fake) Session(stream grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	s := &fakeSession{fake: f, stream: stream, open: m.GetOpen(), stop: make(chan error, 1), heardAt: time.Now()}
	if d := s.open.GetSessionTtl(); d != nil {
		f.ttl = d.AsDuration()
	}
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook != nil && hook(s, m) {
		select {
		case err = <-s.stop:
			return err
		case <-stream.Context().Done():
			return nil
		}
	}
	opened := &lockdv1.Opened{
		SessionTtl: durationpb.New(f.ttl), HeartbeatInterval: durationpb.New(f.ttl / 3),
		Limits: &lockdv1.Limits{NameBytes: 512, NamesPerAcquire: 4},
	}
	if err := f.begin(s, opened); err != nil {
		return err
	}
	s.send(m.GetRequestId(), opened)
	received := make(chan error, 1)
	go func() { received <- s.receive() }()
	select {
	case err = <-received:
	case err = <-s.stop:
	}
	if s.gone.Load() || status.Code(err) == codes.Aborted { // what went on in another stream is not its own any more
		f.releaseAll(s)
	} else {
		f.withdraw(s)
	}
	return err
}

func (s *fakeSession) receive() error {
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
				s.gone.Store(true)
				return nil
			}
			s.handle(r)
		}
	}
}

func (s *fakeSession) handle(r *lockdv1.SessionRequest) {
	s.fake.mu.Lock()
	s.fake.requests++
	hook := s.fake.hook
	s.fake.mu.Unlock()
	if b := r.GetHeartbeat(); b != nil {
		s.mu.Lock()
		s.heartbeat, s.heardAt = b.GetSentId(), time.Now()
		s.mu.Unlock()
	}
	if hook != nil && hook(s, r) {
		return
	}
	switch t := r.GetMessage().(type) {
	case *lockdv1.SessionRequest_Heartbeat:
		s.send(0, &lockdv1.HeartbeatAck{SentId: t.Heartbeat.GetSentId(), ValidFor: durationpb.New(s.fake.ttl)})
	case *lockdv1.SessionRequest_Acquire:
		s.acquire(r.GetRequestId(), t.Acquire)
	case *lockdv1.SessionRequest_Release:
		s.release(r.GetRequestId(), t.Release)
	case *lockdv1.SessionRequest_Cancel:
		s.cancel(r.GetRequestId(), t.Cancel)
	case *lockdv1.SessionRequest_Extend:
		lease := s.fake.ttl
		if t.Extend.GetLease() != nil {
			lease = t.Extend.GetLease().AsDuration()
		}
		s.send(r.GetRequestId(), &lockdv1.Extended{Validity: s.validity(lease)})
	case *lockdv1.SessionRequest_SetLimit:
		s.send(r.GetRequestId(), &lockdv1.LimitSet{Previous: t.SetLimit.GetLimit() + 1})
	case *lockdv1.SessionRequest_Look:
		s.send(r.GetRequestId(), &lockdv1.Looked{Lock: &lockdv1.LockState{Name: t.Look.GetName()}})
	case *lockdv1.SessionRequest_Watch, *lockdv1.SessionRequest_Unwatch:
		s.fake.mu.Lock()
		s.fake.watched = r.GetWatch().GetName()
		s.fake.mu.Unlock()
		s.send(r.GetRequestId(), &lockdv1.Result{})
	}
}

func (s *fakeSession) validity(remaining time.Duration) *lockdv1.Validity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &lockdv1.Validity{
		Remaining: durationpb.New(remaining), Anchor: s.heartbeat, AnchorAge: durationpb.New(time.Since(s.heardAt)),
	}
}

func (s *fakeSession) acquire(id uint64, a *lockdv1.Acquire) {
	f := s.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[a.GetName()]
	if len(a.GetItems()) > 0 {
		f.acquireAllLocked(fakeWaiter{s, id, a})
		return
	}
	switch {
	case h == nil:
		h = &fakeHold{}
		f.held[a.GetName()] = h
		f.grantLocked(h, fakeWaiter{s, id, a})
	case h.session == s && a.GetHolder() != "" && h.holder == a.GetHolder():
		h.count++
		f.tellGrant(h, fakeWaiter{s, id, a})
	case a.GetWait() != nil && a.GetWait().AsDuration() == 0:
		s.send(id, &lockdv1.NotGranted{
			Cause: lockdv1.NotGranted_CAUSE_HELD, RetryAfter: durationpb.New(f.ttl), HeldBy: "s:" + h.holder,
		})
	default:
		h.waiting = append(h.waiting, fakeWaiter{s, id, a})
		s.send(id, &lockdv1.Queued{Position: uint32(len(h.waiting) - 1)})
		if a.GetWait() != nil {
			time.AfterFunc(a.GetWait().AsDuration(), func() { f.unqueue(s, id, lockdv1.NotGranted_CAUSE_TIMED_OUT) })
		}
	}
}

func (f *fake) acquireAllLocked(w fakeWaiter) {
	if f.grantAllLocked(w) {
		return
	}
	if w.acquire.GetWait() != nil && w.acquire.GetWait().AsDuration() == 0 {
		w.session.send(w.id, &lockdv1.NotGranted{
			Cause: lockdv1.NotGranted_CAUSE_HELD, RetryAfter: durationpb.New(f.ttl),
			HeldBy: "s:x",
		})
		return
	}
	f.several = append(f.several, w)
	w.session.send(w.id, &lockdv1.Queued{Position: uint32(len(f.several) - 1)})
	if w.acquire.GetWait() != nil {
		time.AfterFunc(w.acquire.GetWait().AsDuration(),
			func() { f.unqueue(w.session, w.id, lockdv1.NotGranted_CAUSE_TIMED_OUT) })
	}
}

// grantAllLocked grants all names of a request if they are free.
func (f *fake) grantAllLocked(w fakeWaiter) bool {
	for _, i := range w.acquire.GetItems() {
		if f.held[i.GetName()] != nil {
			return false
		}
	}
	g := &lockdv1.Granted{Validity: w.session.validity(f.ttl), HoldCount: 1, Auto: true}
	if w.acquire.GetLease() != nil {
		g.Validity, g.Auto = w.session.validity(w.acquire.GetLease().AsDuration()), false
	}
	for _, i := range w.acquire.GetItems() {
		f.fence++
		h := &fakeHold{session: w.session, holder: w.acquire.GetHolder(), fence: f.fence, count: 1}
		if h.holder == "" {
			h.holder = "#" + time.Duration(w.id).String()
		}
		f.held[i.GetName()] = h
		g.Holds = append(g.Holds, &lockdv1.Hold{Name: i.GetName(), Kind: i.GetKind(), Holder: h.holder, Fence: h.fence})
	}
	w.session.send(w.id, g)
	return true
}

func (f *fake) grantLocked(h *fakeHold, w fakeWaiter) {
	f.fence++
	h.session, h.fence, h.count = w.session, f.fence, 1
	h.holder = w.acquire.GetHolder()
	if h.holder == "" {
		h.holder = "#" + time.Duration(w.id).String()
	}
	f.tellGrant(h, w)
}

func (f *fake) tellGrant(h *fakeHold, w fakeWaiter) {
	remaining, auto := f.ttl, true
	if w.acquire.GetLease() != nil {
		remaining, auto = w.acquire.GetLease().AsDuration(), false
	}
	w.session.send(w.id, &lockdv1.Granted{
		Holds: []*lockdv1.Hold{{
			Name: w.acquire.GetName(), Kind: w.acquire.GetKind(), Holder: h.holder, Fence: h.fence, AcquiredBy: w.id,
		}},
		Validity: w.session.validity(remaining), HoldCount: h.count, Auto: auto,
	})
}

func (s *fakeSession) release(id uint64, r *lockdv1.Release) {
	f := s.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.held[r.GetName()]
	if h == nil || h.session != s || h.holder != r.GetHolder() {
		s.send(id, failure(codes.FailedPrecondition, "LOCK_NOT_HELD"))
		return
	}
	if r.GetKeep() > 0 {
		s.send(id, &lockdv1.Released{Remaining: r.GetKeep()})
		return
	}
	h.count--
	s.send(id, &lockdv1.Released{Remaining: h.count})
	if h.count == 0 {
		f.passOnLocked(r.GetName(), h)
	}
}

func (f *fake) passOnLocked(name string, h *fakeHold) {
	if len(h.waiting) == 0 {
		delete(f.held, name)
		f.several = slices.DeleteFunc(f.several, f.grantAllLocked)
		return
	}
	next := h.waiting[0]
	h.waiting = h.waiting[1:]
	f.grantLocked(h, next)
}

func (s *fakeSession) cancel(id uint64, c *lockdv1.Cancel) {
	if s.fake.unqueue(s, c.GetTargetId(), lockdv1.NotGranted_CAUSE_CANCELLED) {
		s.send(id, &lockdv1.Result{})
		return
	}
	s.send(id, failure(codes.NotFound, "REQUEST_NOT_WAITING"))
}

func (f *fake) unqueue(s *fakeSession, id uint64, cause lockdv1.NotGranted_Cause) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, w := range f.several {
		if w.session == s && w.id == id {
			f.several = slices.Delete(f.several, i, i+1)
			s.send(id, &lockdv1.NotGranted{Cause: cause})
			return true
		}
	}
	for _, h := range f.held {
		for i, w := range h.waiting {
			if w.session == s && w.id == id {
				h.waiting = append(h.waiting[:i:i], h.waiting[i+1:]...)
				s.send(id, &lockdv1.NotGranted{Cause: cause})
				return true
			}
		}
	}
	return false
}

func (f *fake) releaseAll(s *fakeSession) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.several = slices.DeleteFunc(f.several, func(w fakeWaiter) bool { return w.session == s })
	for name, h := range f.held {
		var others []fakeWaiter
		for _, w := range h.waiting {
			if w.session != s {
				others = append(others, w)
			}
		}
		h.waiting = others
		if h.session == s {
			f.passOnLocked(name, h)
		}
	}
}

// send sends an answer, or a push if id is 0.
func (s *fakeSession) send(id uint64, message any) {
	m := &lockdv1.SessionResponse{RequestId: id}
	switch t := message.(type) {
	case *lockdv1.Opened:
		m.Message = &lockdv1.SessionResponse_Opened{Opened: t}
	case *lockdv1.HeartbeatAck:
		m.Message = &lockdv1.SessionResponse_HeartbeatAck{HeartbeatAck: t}
	case *lockdv1.Granted:
		m.Message = &lockdv1.SessionResponse_Granted{Granted: t}
	case *lockdv1.NotGranted:
		m.Message = &lockdv1.SessionResponse_NotGranted{NotGranted: t}
	case *lockdv1.Queued:
		m.Message = &lockdv1.SessionResponse_Queued{Queued: t}
	case *lockdv1.Released:
		m.Message = &lockdv1.SessionResponse_Released{Released: t}
	case *lockdv1.Extended:
		m.Message = &lockdv1.SessionResponse_Extended{Extended: t}
	case *lockdv1.LimitSet:
		m.Message = &lockdv1.SessionResponse_LimitSet{LimitSet: t}
	case *lockdv1.Looked:
		m.Message = &lockdv1.SessionResponse_Looked{Looked: t}
	case *lockdv1.Result:
		m.Message = &lockdv1.SessionResponse_Result{Result: t}
	case *lockdv1.Lost:
		m.Message = &lockdv1.SessionResponse_Lost{Lost: t}
	case *lockdv1.AtRisk:
		m.Message = &lockdv1.SessionResponse_AtRisk{AtRisk: t}
	case *lockdv1.Safe:
		m.Message = &lockdv1.SessionResponse_Safe{Safe: t}
	case *lockdv1.Unlocked:
		m.Message = &lockdv1.SessionResponse_Unlocked{Unlocked: t}
	case *lockdv1.Draining:
		m.Message = &lockdv1.SessionResponse_Draining{Draining: t}
	case *lockdv1.Closing:
		m.Message = &lockdv1.SessionResponse_Closing{Closing: t}
	}
	s.sendRaw(m)
}

func (s *fakeSession) sendRaw(m *lockdv1.SessionResponse) {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	_ = s.stream.Send(m) // fails when the stream is over, and then nobody needs it
}

// end ends the stream with an error, as if the connection broke.
func (s *fakeSession) end(err error) { s.stop <- err }

func failure(code codes.Code, reason string) *lockdv1.Result {
	return &lockdv1.Result{Failure: &lockdv1.Failure{Code: int32(code), Message: "no", Reason: reason}}
}
