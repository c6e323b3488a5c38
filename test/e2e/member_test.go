package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// member is a session.
type member struct {
	m      *mob
	who    string
	rng    *rand.Rand
	stream lockdv1.SessionService_SessionClient
	cancel context.CancelFunc
	last   uint64

	mu      sync.Mutex // guards the fields below
	answers map[uint64]chan *lockdv1.SessionResponse
	done    chan struct{}
}

func (m *mob) join(i int, rng *rand.Rand) *member {
	ctx, cancel := context.WithCancel(context.Background())
	s, err := lockdv1.NewSessionServiceClient(m.conns[i%len(m.conns)]).Session(ctx)
	if err != nil {
		m.t.Error(err)
		cancel()
		return nil
	}
	how := lockdv1.OnDisconnect_ON_DISCONNECT_EXPIRE
	if rng.IntN(2) == 0 {
		how = lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE
	}
	c := &member{
		m: m, who: "client " + strconv.Itoa(i), rng: rng, stream: s, cancel: cancel,
		answers: make(map[uint64]chan *lockdv1.SessionResponse), done: make(chan struct{}),
	}
	opened := c.expect(0)
	if err := s.Send(openWith(&lockdv1.Open{SessionTtl: durationpb.New(mobTTL), OnDisconnect: how})); err != nil {
		m.t.Error(err)
	}
	go c.read()
	if c.await(opened) == nil {
		m.t.Error("not opened")
	}
	go c.beat()
	return c
}

func (c *member) expect(id uint64) chan *lockdv1.SessionResponse {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan *lockdv1.SessionResponse, 4)
	c.answers[id] = ch
	return ch
}

func (c *member) send(r *lockdv1.SessionRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.stream.Send(r)
}

func (c *member) beat() {
	tick := time.NewTicker(mobTTL / 5)
	defer tick.Stop()
	for n := uint64(1); ; n++ {
		select {
		case <-tick.C:
			c.send(heartbeat(n))
		case <-c.done:
			return
		}
	}
}

func (c *member) read() {
	defer close(c.done)
	for {
		r, err := c.stream.Recv()
		if err != nil {
			return
		}
		if r.GetQueued() != nil || r.GetHeartbeatAck() != nil {
			continue
		}
		if l := r.GetLost(); l != nil {
			c.m.count("lost " + l.GetReason().String() + " " + fmt.Sprint(c.m.names[l.GetHold().GetName()].forced))
			continue
		}
		c.mu.Lock()
		ch := c.answers[r.GetRequestId()]
		if r.GetOpened() != nil {
			ch = c.answers[0]
		}
		c.mu.Unlock()
		if ch != nil {
			ch <- r
		}
	}
}

// await is nil when the session has ended.
func (c *member) await(ch chan *lockdv1.SessionResponse) *lockdv1.SessionResponse {
	select {
	case r := <-ch:
		return r
	case <-c.done:
		return nil
	case <-time.After(15 * time.Second):
		c.m.t.Errorf("%s: no answer in 15 s", c.who)
		return nil
	}
}

func (c *member) ask(r *lockdv1.SessionRequest) chan *lockdv1.SessionResponse {
	ch := c.expect(r.GetRequestId())
	c.send(r)
	return ch
}

func (c *member) id() uint64 { c.last++; return c.last }

// pick is what to ask for of a name.
func (c *member) pick(name string) *mobHold {
	h := &mobHold{name: name, kind: c.m.names[name].kind, permits: 1}
	switch h.kind {
	case lockdv1.LockKind_LOCK_KIND_READ:
		if c.rng.IntN(3) == 0 {
			h.kind = lockdv1.LockKind_LOCK_KIND_WRITE
		}
	case lockdv1.LockKind_LOCK_KIND_SEMAPHORE:
		h.permits = 1 + c.rng.IntN(2)
	default:
	}
	return h
}

func (h *mobHold) item() *lockdv1.AcquireItem {
	i := &lockdv1.AcquireItem{Name: h.name, Kind: h.kind}
	if h.kind == lockdv1.LockKind_LOCK_KIND_SEMAPHORE {
		i.Permits, i.Limit = uint32(h.permits), mobLimit
	}
	return i
}

// request is what to ask for, and whether it waits without a bound.
func (c *member) request() (a *lockdv1.Acquire, hs []*mobHold, forever bool) {
	n := 1
	if c.rng.IntN(6) == 0 {
		n = 2 + c.rng.IntN(2)
	}
	a = &lockdv1.Acquire{}
	for _, i := range c.rng.Perm(len(mobNames))[:n] {
		h := c.pick(mobNames[i])
		hs, a.Items = append(hs, h), append(a.Items, h.item())
	}
	if n == 1 {
		i := a.GetItems()[0]
		a = &lockdv1.Acquire{Name: i.GetName(), Kind: i.GetKind(), Permits: i.GetPermits(), Limit: i.GetLimit()}
		if c.rng.IntN(4) == 0 && hs[0].kind != lockdv1.LockKind_LOCK_KIND_SEMAPHORE {
			a.Holder = "me"
		}
	}
	switch c.rng.IntN(4) {
	case 0:
		a.Wait = new(durationpb.Duration)
	case 1:
		a.Wait = durationpb.New(time.Duration(c.rng.Int64N(int64(200 * time.Millisecond))))
	default:
		forever = true
	}
	if c.rng.IntN(3) == 0 {
		a.Lease = durationpb.New(mobTTL)
	}
	return a, hs, forever
}

// act asks for something once, and leaves it. It returns false when the session has ended.
func (c *member) act() bool {
	a, hs, forever := c.request()
	id := c.id()
	ch := c.ask(acquire(id, a))
	if forever && c.rng.IntN(4) == 0 {
		c.dawdle()
		c.ask(&lockdv1.SessionRequest{
			RequestId: c.id(),
			Message:   &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: id}},
		})
	}
	if c.rng.IntN(80) == 0 { // leaves in the middle
		c.dawdle()
		c.quit()
		return false
	}
	r := c.await(ch)
	if r.GetGranted() == nil {
		c.m.count(fmt.Sprint(r.GetNotGranted().GetCause(), " ", r.GetResult().GetFailure().GetMessage()))
		return r != nil
	}
	for i, h := range hs {
		h.hold = r.GetGranted().GetHolds()[i]
		c.m.granted(h, h.hold.GetFence())
	}
	c.m.count("granted")
	if a.GetHolder() != "" && c.rng.IntN(2) == 0 {
		if c.await(c.ask(acquire(c.id(), a))).GetGranted() != nil {
			c.await(c.ask(release(c.id(), hs[0].hold)))
			c.m.count("nested")
		}
	}
	c.dawdle()
	return c.leave(hs)
}

func (c *member) dawdle() { time.Sleep(time.Duration(c.rng.Int64N(int64(2 * time.Millisecond)))) }

// leave gives back what it has, or ends the session with it.
func (c *member) leave(hs []*mobHold) bool {
	for _, h := range hs {
		c.m.leaves(h)
	}
	if c.rng.IntN(120) == 0 {
		c.quit()
		return false
	}
	chs := make([]chan *lockdv1.SessionResponse, len(hs))
	for i, h := range hs {
		chs[i] = c.ask(release(c.id(), h.hold))
	}
	for i, h := range hs {
		r := c.await(chs[i])
		if r.GetReleased() == nil && !c.m.names[h.name].forced {
			c.m.t.Errorf("%s: release of %s: %v", c.who, h.name, r)
		}
	}
	return true
}

// quit ends the session, politely or not.
func (c *member) quit() {
	switch c.rng.IntN(3) {
	case 0:
		c.send(&lockdv1.SessionRequest{
			RequestId: c.id(),
			Message:   &lockdv1.SessionRequest_Goodbye{Goodbye: &lockdv1.Goodbye{}},
		})
		<-c.done
		c.m.count("goodbye")
	default:
		c.cancel()
		<-c.done
		c.m.count("broken off")
	}
}

// beMember is a client until the end.
func (m *mob) beMember(i int, rng *rand.Rand) {
	for time.Now().Before(m.over) {
		c := m.join(i, rng)
		if c == nil {
			return
		}
		for time.Now().Before(m.over) && c.act() {
		}
		select {
		case <-c.done:
		default:
			c.cancel()
			<-c.done
		}
		c.cancel()
	}
}

// beShell asks without a session.
func (m *mob) beShell(i int, rng *rand.Rand) {
	locks := lockdv1.NewLockServiceClient(m.conns[i%len(m.conns)])
	c := &member{m: m, rng: rng}
	for n := 0; time.Now().Before(m.over); n++ {
		h := c.pick(mobNames[rng.IntN(len(mobNames))])
		it := h.item()
		req := &lockdv1.AcquireRequest{
			Name: it.GetName(), Kind: it.GetKind(), Permits: it.GetPermits(), Limit: it.GetLimit(),
			Lease: durationpb.New(mobTTL),
		}
		if rng.IntN(2) == 0 {
			req.Wait = durationpb.New(time.Duration(rng.Int64N(int64(300 * time.Millisecond))))
		}
		if rng.IntN(2) == 0 {
			req.LeaseId = fmt.Sprintf("a-lease-id-of-my-own-%06d-%06d", i, n)
		}
		ctx, cancel := context.WithCancel(context.Background())
		if rng.IntN(8) == 0 {
			time.AfterFunc(time.Duration(rng.Int64N(int64(5*time.Millisecond))), cancel)
		}
		got, err := locks.Acquire(ctx, req)
		if err != nil && req.GetLeaseId() != "" { // once more, to know
			req.Wait = nil
			got, err = locks.Acquire(context.Background(), req)
		}
		switch l := got.GetGranted(); {
		case err != nil:
			_, _ = locks.Release(context.Background(),
				&lockdv1.ReleaseRequest{Name: req.GetName(), Kind: req.GetKind(), LeaseId: req.GetLeaseId()})
			m.count("shell " + status.Code(err).String())
		case l == nil:
			m.count("shell refused")
		default:
			m.granted(h, l.GetFence())
			time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Millisecond))))
			m.leaves(h)
			_, err := locks.Release(context.Background(),
				&lockdv1.ReleaseRequest{Name: req.GetName(), Kind: req.GetKind(), LeaseId: l.GetLeaseId()})
			if err != nil && !m.names[h.name].forced {
				m.t.Errorf("release of a unary %s: %v", h.name, err)
			}
			m.count("shell granted")
		}
		cancel()
	}
}
