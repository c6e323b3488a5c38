package broker_test

import (
	"errors"
	"fmt"
	"math"
	mrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// actor is a client with one session of a storm. It believes what it is told.
type actor struct {
	*broker.Session
	s       *storm
	who     string
	rng     *mrand.Rand
	release atomic.Bool // at the end of the stream, or because an operator ends it
	reader  sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	lastID   uint64
	requests map[uint64]*asked
	mine     map[session.Hold]*mine
	had      map[session.Hold]bool // ever
	left     bool
}

type asked struct {
	asked   string
	permits map[string]uint32 // of the semaphores asked for
	auto    bool              // asks for a lease that is renewed
	hold    session.Hold      // to release or extend
	release bool
	extend  *request.Extend
	answers int
}

type mine struct {
	*told
	auto     bool
	shorter  int // requests that may shorten it are under way: what is told meanwhile may be older
	count    uint32
	leaving  uint32 // releases under way
	released bool   // for the last time
	dead     bool   // that failed; what is left of it is to be released, but it is not trusted
}

// beClient opens one session after the other.
func (s *storm) beClient(i int, rng *mrand.Rand) {
	for n := 0; !s.isOver(); n++ {
		req := session.OpenRequest{ReleaseOnEnd: rng.IntN(2) == 0, TTL: time.Second + s.upTo(rng, longestLease-time.Second)}
		sess, err := s.replicas[rng.IntN(2)].Open(req)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		a := &actor{
			Session: sess, s: s, who: fmt.Sprintf("client %d.%d", i, n), rng: rng,
			requests: make(map[uint64]*asked), mine: make(map[session.Hold]*mine),
			had: make(map[session.Hold]bool),
		}
		a.release.Store(req.ReleaseOnEnd)
		s.asked.Store(sess, a)
		a.reader.Go(a.read)
		a.live()
		a.reader.Wait()
	}
}

// after is time.After, without a timer where none is needed. In a bubble a timer that is due when it is set runs at
// once, on the thread that sets it. Go 1.26 has one context of the race detector for all timers of a bubble: where two
// threads use it together, the race detector crashes.
func after(d time.Duration) <-chan time.Time {
	if d > 0 {
		return time.After(d)
	}
	now := make(chan time.Time)
	close(now)
	return now
}

// live does something until the session ends or the storm is over.
func (a *actor) live() {
	for !a.s.isOver() {
		select {
		case <-a.Done():
			return
		case <-after(a.s.upTo(a.rng, 150*time.Millisecond)):
		}
		a.Hear()
		switch n := a.rng.IntN(200); {
		case n < 70:
			a.ask()
		case n < 130:
			a.releaseOnce(a.any())
		case n < 145:
			a.extend(a.any())
		case n < 160:
			a.Cancel(a.newRequest(asked{}), uint64(a.rng.IntN(int(a.lastID)+1)))
		case n < 180:
			a.Heartbeat(0, a.lastID)
		case n < 184:
			a.Watch(a.newRequest(asked{}), name(a.rng.IntN(stressNames)))
		case n < 187:
			a.Unwatch(a.newRequest(asked{}), name(a.rng.IntN(stressNames)))
		case n < 189:
			time.Sleep(a.s.upTo(a.rng, a.TTL()*3/2)) // silence
		case n < 190:
			a.flood()
		case n < 192:
			a.leave(true)
		case n < 194:
			a.leave(false)
		case n < 198:
			a.burst()
		}
	}
	a.settleDown()
}

// settleDown releases what comes until every request is answered, and leaves.
func (a *actor) settleDown() {
	end := time.Now().Add(time.Minute)
	for time.Now().Before(end) && len(a.open()) > 0 {
		select {
		case <-a.Done():
			return
		case <-time.After(200 * time.Millisecond):
		}
		a.Hear()
		a.releaseOnce(a.any())
	}
	for _, r := range a.open() {
		a.s.o.complain("%s: %s is not answered a minute after the storm", a.who, r)
	}
	a.leave(a.rng.IntN(2) == 0)
	<-a.Done()
}

// open are the requests without an answer.
func (a *actor) open() (open []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.requests {
		if r.answers == 0 {
			open = append(open, fmt.Sprintf("request %s#%d %s", a.ID(), id, r.asked))
		}
	}
	return open
}

func (a *actor) newRequest(r asked) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastID++
	a.requests[a.lastID] = &r
	return a.lastID
}

func (a *actor) ask() { a.askFor(a.rng.IntN(stressNames)) }

// burst asks for a shared name several times at one moment.
func (a *actor) burst() {
	i := stressNames - 1 - a.rng.IntN(2)
	for range 2 + a.rng.IntN(4) {
		a.askFor(i)
	}
}

func (a *actor) askFor(i int) {
	item := a.s.item(i, a.rng)
	req := request.Acquire{
		Name: item.Name, Kind: item.Kind, Permits: item.Permits, Limit: item.Limit,
		Holder: []string{"", "", "a", "b"}[a.rng.IntN(4)],
	}
	permits := map[string]uint32{item.Name: item.Permits}
	if a.rng.IntN(6) == 0 {
		for range 1 + a.rng.IntN(3) {
			item := a.s.item(a.rng.IntN(stressNames), a.rng)
			req.More = append(req.More, item)
			permits[item.Name] = item.Permits
		}
	}
	switch a.rng.IntN(3) {
	case 0:
		req.Wait = new(time.Duration(0))
	case 1:
		req.Wait = new(a.s.upTo(a.rng, 3*time.Second))
	}
	if a.rng.IntN(2) == 0 {
		req.Lease = new(a.s.lease(a.rng))
	}
	r := asked{permits: permits, auto: req.Lease == nil, asked: fmt.Sprintf("%+v", req)}
	a.Acquire(a.newRequest(r), req)
}

// any is one of the holds, if there are some.
func (a *actor) any() *session.Hold {
	a.mu.Lock()
	defer a.mu.Unlock()
	for h, m := range a.mine {
		if !m.released || m.dead {
			return &h
		}
	}
	return nil
}

// releaseOnce releases a hold once. If that was the last time it is not trusted from now on.
func (a *actor) releaseOnce(h *session.Hold) {
	if h == nil {
		return
	}
	r := asked{hold: *h, release: true}
	a.mu.Lock()
	if m := a.mine[*h]; m != nil {
		if m.leaving++; m.leaving >= m.count {
			m.released = true
			a.s.o.ended(m.told)
		}
	}
	a.mu.Unlock()
	a.Release(a.newRequest(r), *h)
}

func (a *actor) extend(h *session.Hold) {
	if h == nil {
		return
	}
	e := request.Extend{Hold: *h, Lease: new(a.s.lease(a.rng)), MayShorten: a.rng.IntN(2) == 0}
	if a.rng.IntN(4) == 0 {
		e.Lease = nil
	}
	a.mu.Lock()
	if m := a.mine[*h]; m != nil && e.MayShorten {
		m.shorter++
		end := a.TTL()
		if e.Lease != nil {
			end = *e.Lease
		}
		a.s.o.shortened(m.told, time.Now().Add(end))
	}
	a.mu.Unlock()
	a.Extend(a.newRequest(asked{hold: *h, extend: &e}), e)
}

// extended notes the answer to an extend.
func (a *actor) extended(r *asked, e session.Extended) {
	m := a.mine[r.hold]
	if m == nil || r.extend == nil {
		return
	}
	m.auto = r.extend.Lease == nil
	if m.shorter == 0 {
		a.s.o.trusted(m.told, e.Validity.Until)
	}
}

// decided says that a request that might have shortened a lease did, or did not.
func (a *actor) decided(r *asked) {
	if m := a.mine[r.hold]; m != nil && r.extend != nil && r.extend.MayShorten {
		m.shorter--
	}
}

// flood asks for more than the client reads.
func (a *actor) flood() {
	a.mu.Lock() // the reader stands still
	defer a.mu.Unlock()
	for range 2000 {
		a.lastID++
		a.requests[a.lastID] = &asked{}
		a.Cancel(a.lastID, 0)
	}
}

// leave ends the session. Until a hold's validity ends the client may still be at work, unless it said otherwise.
func (a *actor) leave(politely bool) {
	if politely || a.release.Load() {
		a.endAll(func(session.Hold) time.Time { return time.Now() })
	}
	if politely {
		a.Goodbye()
	} else {
		a.End(errors.New("the stream broke"))
	}
}

func (a *actor) endAll(at func(session.Hold) time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
	for h, m := range a.mine {
		a.s.o.endedAt(m.told, at(h))
	}
}

// read notes what is told.
func (a *actor) read() {
	for {
		select {
		case <-a.Outbox().Wake():
			a.hear()
		case <-a.Done():
			a.hear()
			if a.release.Load() { // then the broker may release before it has told that the session ended
				a.endAll(a.s.whenReturned)
			}
			return
		}
	}
}

func (a *actor) hear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.Outbox().TakeSome(math.MaxInt, math.MaxInt) {
		switch e := e.(type) {
		case session.Granted:
			r := a.answered(e.ID)
			if r.permits != nil && len(r.permits) != 1+len(e.More) {
				a.s.o.complain("%s: %s is granted %+v", a.who, r.asked, e)
			}
			a.granted(r, e, e.Hold)
			for _, h := range e.More {
				a.granted(r, e, h)
			}
		case session.NotGranted:
			a.answered(e.ID)
		case session.Extended:
			r := a.answered(e.ID)
			a.decided(r)
			a.extended(r, e)
		case session.Released:
			r := a.answered(e.ID)
			a.decided(r)
			a.counted(r, e)
		case session.Done:
			a.answered(e.ID)
		case session.Failed:
			r := a.answered(e.ID)
			a.decided(r)
			a.failed(r, e.Err)
		case session.HeartbeatAck:
			for _, m := range a.mine {
				if m.auto && m.shorter == 0 && !m.released && !e.Until.IsZero() {
					a.s.o.trusted(m.told, e.Until)
				}
			}
		case session.Lost:
			if m := a.mine[e.Hold]; m != nil {
				a.s.o.ended(m.told)
				delete(a.mine, e.Hold)
			} else if !a.had[e.Hold] {
				a.s.o.complain("%s: lost what it did not hold: %+v", a.who, e)
			}
		}
	}
}

// answered notes that a request was answered. Request 0 is none.
func (a *actor) answered(id uint64) *asked {
	r := a.requests[id]
	if r == nil {
		a.s.o.complain("%s: request %d is answered and was not made", a.who, id)
		return &asked{}
	}
	if r.answers++; r.answers > 1 {
		a.s.o.complain("%s: request %d is answered %d times", a.who, id, r.answers)
	}
	return r
}

func (a *actor) granted(r *asked, e session.Granted, h session.Hold) {
	if m := a.mine[h]; m != nil {
		if m.dead {
			return
		}
		m.count, m.auto = e.Count, e.Auto
		if m.shorter == 0 {
			a.s.o.trusted(m.told, e.Validity.Until)
		}
		return
	}
	a.had[h] = true
	t := a.s.o.granted(h, r.permits[h.Name], a.who, e.Validity.Until)
	a.mine[h] = &mine{told: t, auto: e.Auto, count: e.Count}
	if a.left {
		a.s.o.ended(t)
	}
}

// counted notes that a hold was released once. It goes on if the last time is still to come.
func (a *actor) counted(r *asked, e session.Released) {
	m, remaining := a.mine[r.hold], e.Remaining
	if m == nil || m.dead {
		return
	}
	m.leaving--
	m.count = remaining
	if remaining > 0 && m.shorter == 0 {
		a.s.o.trusted(m.told, e.Validity.Until)
	}
	switch {
	case remaining == 0:
		delete(a.mine, r.hold)
	case m.released && m.leaving < m.count && !a.left:
		// It was not trusted since the release was asked for. What was granted meanwhile may be what was released.
		m.released = false
		until := time.Now()
		if m.shorter == 0 {
			until = e.Validity.Until
		}
		a.s.o.goesOn(m.told, until)
	}
}

// failed notes a failure, of a release perhaps. The client does not trust a hold that it wanted to release.
func (a *actor) failed(r *asked, err error) {
	m := a.mine[r.hold]
	if m == nil || !r.release {
		return
	}
	m.leaving--
	switch {
	case errors.Is(err, lock.ErrNotHeld):
		delete(a.mine, r.hold)
	case m.released:
		m.dead = true
	}
}
