package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

var (
	// errSessionOver answers the calls that a session could not answer before it ended.
	errSessionOver = errors.New("the session ended")
	// errNoAnswer: a call was given up because its answer was late.
	errNoAnswer = errors.New("the server did not answer in time")
	// errUnanswered refuses a request while mostUnanswered others have no answer.
	errUnanswered = refused(codes.ResourceExhausted, "QUOTA_REQUESTS", "too many requests of this client have no answer")
)

// mostUnanswered is how many requests of a session may be without an answer, also those whose callers gave up: a server
// that never answers leaves one more with each try.
var mostUnanswered = 100_000

// session is a client's relation with the server: what it holds and what it asked for. It is on one stream at a time,
// and goes on in another one when that breaks.
type session struct {
	client *Client
	mu     *sync.Mutex // the client's
	opened instant     // when it was made
	limits atomic.Pointer[lockdv1.Limits]
	done   chan struct{} // closed when the session is over

	spare  sync.Pool // of chan answer; a session has its own, because channels must not leave a synctest bubble
	timers sync.Pool // of *time.Timer

	// Guarded by mu.
	id      string // empty until it is open
	token   string // what resuming it needs
	ttl     time.Duration
	at      int        // which of the client's targets it was on last
	stream  *stream    // nil while there is none
	parked  *stream    // the stream that it was on, while another one is tried
	decided *sync.Cond // when parked is set to nil
	epoch   uint64     // of the last attempt to open a stream
	nextID  uint64
	queue   []*call
	pending map[uint64]*call // sent or queued, not answered
	holds   map[holdKey]*hold
	alarm   *time.Timer
	alarmAt instant // when it rings
	alarms  alarms
	leaving bool // nothing new is sent; Goodbye follows what is queued
	over    bool
	said    bool // over because the server ended it without an error
}

// call is one request under way.
type call struct {
	request *lockdv1.SessionRequest
	answer  chan answer // size 1; nil if nobody waits
	// news of the wait, for the goroutine that awaits the answer to tell; nil if nobody is to be told
	queued  chan queued
	then    func(answer) // instead of answer: called with Client.mu held
	asks    *request     // of an Acquire
	extends *Lock        // of an Extend
	frees   *Lock        // of a Release

	// Guarded by Client.mu.
	sent      bool // on the stream at hand
	seen      bool // it was sent on an earlier stream
	waits     bool // of an Acquire: it was told on the stream at hand that it waits
	abandoned bool
}

func (c *Client) newSession() *session {
	s := &session{
		client: c, mu: &c.mu, opened: c.now(), ttl: c.settings.open.GetSessionTtl().AsDuration(), done: make(chan struct{}),
		pending: make(map[uint64]*call), holds: make(map[holdKey]*hold), decided: sync.NewCond(&c.mu), alarmAt: never,
	}
	s.alarm = time.AfterFunc(time.Hour, s.ring)
	s.alarm.Stop()
	return s
}

// tracked says whether the answer of a call matters to anybody.
func (c *call) tracked() bool {
	return c.answer != nil || c.then != nil || c.frees != nil || c.abandoned
}

// freesAll says whether the call is a Release of all that is held, not of some permits only.
func (c *call) freesAll() bool { return c.frees != nil && c.request.GetRelease().GetKeep() == 0 }

// answer is what became of a call. unsent says that the server surely never saw it.
type answer struct {
	response *lockdv1.SessionResponse // nil if the fields below say all
	stream   *stream                  // that it came on, with a response
	locks    []*Lock
	left     uint32 // of a hold that was released
	err      error
	unsent   bool
}

// channel returns a channel for an answer, a used one if there is one.
func (s *session) channel() chan answer {
	if used, ok := s.spare.Get().(chan answer); ok {
		return used
	}
	return make(chan answer, 1)
}

// answered keeps the channel of an answered call for another one: nothing is sent on it any more.
func (s *session) answered(c *call) { s.spare.Put(c.answer) }

// do sends a call and waits for its answer until ctx ends or the time by comes; 0 is no bound. Then it abandons the
// call. A call is for one use.
func (s *session) do(ctx context.Context, c *call, by instant) answer {
	s.mu.Lock()
	full := len(s.pending) >= mostUnanswered && c.frees == nil
	ok := !full && s.submitLocked(c)
	s.mu.Unlock()
	switch {
	case full:
		return answer{err: errUnanswered, unsent: true}
	case !ok:
		return answer{err: errSessionOver, unsent: true}
	}
	a, came := s.await(ctx, c, by)
	if !came {
		return s.abandon(c, a.err)
	}
	s.answered(c)
	return a
}

// await waits for the answer of a call that was submitted. If none comes in time the call stays under way.
func (s *session) await(ctx context.Context, c *call, by instant) (a answer, came bool) {
	var late <-chan time.Time
	if bound := s.client.until(by); bound > 0 {
		timer, used := s.timers.Get().(*time.Timer)
		if used {
			timer.Reset(bound)
		} else {
			timer = time.NewTimer(bound)
		}
		defer s.timers.Put(timer)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case a = <-c.answer:
			for len(c.queued) > 0 { // they came before it
				c.asks.tell(<-c.queued)
			}
			return a, true
		case news := <-c.queued:
			c.asks.tell(news)
		case <-ctx.Done():
			return answer{err: ended(ctx)}, false
		case <-late:
			return answer{err: errNoAnswer}, false
		}
	}
}

// answerBy is when an answer that is due at once must have come: 0 if ctx has a deadline.
func (c *Client) answerBy(ctx context.Context) instant {
	if _, ok := ctx.Deadline(); ok {
		return 0
	}
	return c.now() + instant(c.settings.answerWithin)
}

// until is the time left until by, at least 1 ns; 0 if by is 0, which is no bound.
func (c *Client) until(by instant) time.Duration {
	if by == 0 {
		return 0
	}
	return max(time.Duration(by-c.now()), 1)
}

// submitLocked queues a call and has it sent. It returns false if the session takes none any more.
func (s *session) submitLocked(c *call) bool {
	if s.over || s.leaving {
		return false
	}
	s.numberLocked(c)
	if c.request.GetExtend().GetMayShorten() {
		s.shorteningLocked(c)
	}
	s.rouseLocked()
	return true
}

// numberLocked gives a call the next id and puts it into the queue.
func (s *session) numberLocked(c *call) {
	s.nextID++
	c.request.RequestId = s.nextID
	if c.tracked() {
		s.pending[s.nextID] = c
	}
	s.queue = append(s.queue, c)
}

// rouseLocked wakes the writer, if there is one.
func (s *session) rouseLocked() {
	if s.stream != nil {
		s.stream.rouse()
	}
}

// abandon gives a call up. An Acquire is cancelled, and a grant that comes all the same is released. An answer that has
// come meanwhile counts, unless the caller's context has ended: then locks that it grants are released, too.
func (s *session) abandon(c *call, err error) answer {
	s.mu.Lock()
	if s.pending[c.request.GetRequestId()] == c {
		defer s.mu.Unlock()
		return answer{err: err, unsent: s.disownLocked(c)}
	}
	s.mu.Unlock()
	a := <-c.answer
	if c.request.GetAcquire() == nil || errors.Is(err, errNoAnswer) {
		return a
	}
	for _, l := range a.locks {
		s.unlock(l, l.releaseCall())
	}
	return answer{err: err, unsent: a.unsent}
}

// disownLocked marks a call as abandoned, and says whether the server surely never sees it.
func (s *session) disownLocked(c *call) (unsent bool) {
	c.abandoned = true
	id := c.request.GetRequestId()
	switch {
	case c.request.GetAcquire() == nil:
	case !c.sent && c.seen: // it asks for nothing any more, but has undone what it took before
		c.request.GetAcquire().Wait = durationpb.New(0)
	case !c.sent:
		delete(s.pending, id) // the writer passes over it
		return true
	default:
		s.submitLocked(&call{request: &lockdv1.SessionRequest{
			Message: &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: id}},
		}})
	}
	return false
}

// unlock ends a lock by Unlock, sends its Release, and says whether it was still held.
func (s *session) unlock(l *Lock, release *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.removeLocked(l) {
		return false
	}
	l.finish(ErrUnlocked)
	s.submitLocked(release)
	s.leaveIfIdleLocked()
	return true
}

// leaveIfIdleLocked ends a session on a draining server that found no other server, once it has no holds and no calls.
func (s *session) leaveIfIdleLocked() {
	if s.stream != nil && s.stream.draining && s.stream.stuck && len(s.holds) == 0 && len(s.pending) == 0 {
		s.leaving = true
		s.rouseLocked()
	}
}

// leave ends all locks and has Goodbye sent. It waits for the session to end, or cuts its streams after closeTimeout,
// and says whether all is surely released.
func (s *session) leave() bool {
	s.mu.Lock()
	s.leaving = true
	busy := len(s.holds)+len(s.pending)+len(s.queue) > 0
	s.finishAllLocked(ErrClosed)
	s.rouseLocked()
	if s.stream == nil && s.parked == nil { // nobody to say it to
		s.client.endSessionLocked(s, ErrClosed)
	}
	s.mu.Unlock()
	within := closeTimeout
	if !busy { // the answer means nothing
		within /= 10
	}
	select {
	case <-s.done:
		return !busy || s.said
	case <-time.After(within):
		s.mu.Lock()
		for _, st := range []*stream{s.stream, s.parked} {
			if st != nil {
				st.cancel(ErrClosed)
			}
		}
		s.mu.Unlock()
		<-s.done
		return !busy
	}
}

// finishAllLocked ends all locks: as lost with this cause, unless it is ErrClosed.
func (s *session) finishAllLocked(cause error) {
	for key, h := range s.holds {
		err := cause
		if !errors.Is(cause, ErrClosed) {
			err = &LostError{Name: key.name, Reason: LostSession, Err: cause}
		}
		for _, l := range h.locks {
			l.finish(err)
		}
		h.locks = nil
	}
	clear(s.holds)
}

// replyLocked gives a call its only answer.
func (c *call) replyLocked(a answer) {
	switch {
	case c.then != nil:
		c.then(a)
	case c.answer != nil:
		c.answer <- a
	}
}
