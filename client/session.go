package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

var (
	// errSessionOver answers the calls that a session could not answer before it ended.
	errSessionOver = errors.New("the session ended")
	// errNoAnswer: a call was given up because its answer was late.
	errNoAnswer = errors.New("the server did not answer in time")
)

// session is a client's relation with the server: what it holds and what it asked for. It is on one stream at a time,
// and goes on in another one when that breaks.
type session struct {
	client *Client
	id     string
	token  string // what resuming it needs; empty if it cannot be resumed
	ttl    time.Duration
	opened instant // first
	limits atomic.Pointer[lockdv1.Limits]

	done  chan struct{} // closed when the session is over
	late  atomic.Bool   // an answer is overdue, and nothing was heard since
	bell  bell          // for answers that do not come
	spare sync.Pool     // of chan answer; a session has its own, because channels must not leave a synctest bubble

	mu      sync.Mutex // guards the fields below, and some of its streams; comes before Lock.mu
	stream  *stream    // nil while there is none
	parked  *stream    // the one that it was on, while another one is tried
	epoch   uint64     // of the last attempt to open a stream
	nextID  uint64
	queue   []*call
	pending map[uint64]*call // sent or queued, not answered
	locks   map[holdKey]*Lock
	order   deadlines
	alarm   alarm
	leaving bool // nothing new is sent; Goodbye follows what is queued
	busy    bool // when Close left it, something was held or under way
	cut     bool // it ended without Goodbye, because it was on no stream
	over    bool
}

// call is one request under way.
type call struct {
	request *lockdv1.SessionRequest
	answer  chan answer     // size 1; nil if nobody waits
	then    func(answer)    // instead of answer: called by read, without locks
	values  context.Context // of an Acquire: for its Locks
	room    []*Lock         // of an Acquire: for its Locks
	queued  func(int)       // of an Acquire: told its position; called by read, without locks
	asks    *request        // of an Acquire
	extends *Lock           // of an Extend
	frees   *Lock           // of a Release

	// Guarded by session.mu.
	was       instant // of an Extend that shortens: the deadline before
	sent      bool    // on the stream at hand
	seen      bool    // it was sent on an earlier stream
	waits     bool    // of an Acquire: the stream at hand told that it does
	abandoned bool
}

// tracked says whether the answer of a call matters to anybody.
func (c *call) tracked() bool {
	return c.answer != nil || c.then != nil || c.frees != nil || c.abandoned
}

// answer is what became of a call. unsent says that the server surely never saw it.
type answer struct {
	response *lockdv1.SessionResponse // nil if the fields below say all
	stream   *stream                  // that it came on, with a response
	locks    []*Lock
	left     uint32 // of a hold that was released
	err      error
	unsent   bool
}

// told is an answer and who is to be told.
type told struct {
	to     chan<- answer
	answer answer
}

func newCall(request *lockdv1.SessionRequest) *call {
	return &call{request: request, answer: make(chan answer, 1)}
}

// acquireCall and releaseCall are the most frequent calls, with all that belongs to them in one allocation.
type (
	acquireCall struct {
		call
		request lockdv1.SessionRequest
		arm     lockdv1.SessionRequest_Acquire
		locks   [1]*Lock // of the answer
	}
	releaseCall struct {
		call
		request lockdv1.SessionRequest
		arm     lockdv1.SessionRequest_Release
		release lockdv1.Release
	}
)

// channel is one for an answer, a used one if there is.
func (s *session) channel() chan answer {
	if used, ok := s.spare.Get().(chan answer); ok {
		return used
	}
	return make(chan answer, 1)
}

// answered takes back the channel of a call whose answer was received: nothing is sent on it any more.
func (s *session) answered(c *call) { s.spare.Put(c.answer) }

// do sends a call and waits for its answer, until ctx ends or, if bound is not 0, that time has passed. A call given up
// like this is abandoned. It is not to be used again.
func (s *session) do(ctx context.Context, c *call, bound time.Duration) answer {
	if !s.submit(c) {
		return answer{err: errSessionOver, unsent: true}
	}
	a, err := s.await(ctx, c, bound)
	if err != nil {
		return s.abandon(c, err)
	}
	s.answered(c)
	return a
}

// await waits for the answer of a call that was submitted. If it gives up it says why; the call then goes on.
func (s *session) await(ctx context.Context, c *call, bound time.Duration) (answer, error) {
	by := s.client.now() + instant(bound)
	for {
		var rung <-chan struct{}
		if bound > 0 {
			rung = s.bell.by(s.client.now(), by)
		}
		select {
		case a := <-c.answer:
			return a, nil
		case <-ctx.Done():
			return answer{}, ended(ctx)
		case <-rung:
			if s.client.now() >= by {
				s.late.Store(true)
				return answer{}, errNoAnswer
			}
		}
	}
}

// answerBound is how long an answer that is due at once is waited for: 0 is for as long as ctx, which has a deadline.
func (c *Client) answerBound(ctx context.Context) time.Duration {
	if _, ok := ctx.Deadline(); ok {
		return 0
	}
	return c.settings.answerWithin
}

// submit queues a call and has it sent, unless the session takes none any more.
func (s *session) submit(c *call) bool {
	s.mu.Lock()
	ok := s.queueLocked(c)
	s.sendAndUnlock(c)
	return ok
}

// sendAndUnlock has the queue sent, of which c is the last.
func (s *session) sendAndUnlock(c *call) {
	st, request := s.stream, c.request
	alone := s.takeAloneLocked(c)
	if !alone && len(s.queue) > 0 {
		s.rouseLocked()
	}
	s.mu.Unlock()
	if alone {
		_ = st.rpc.Send(request) // read hears why it fails
		st.sending.Unlock()
	}
}

// submitLocked is submit for those who cannot send.
func (s *session) submitLocked(c *call) {
	s.queueLocked(c)
	s.rouseLocked()
}

func (s *session) queueLocked(c *call) bool {
	if s.over || s.leaving {
		return false
	}
	s.numberLocked(c)
	if c.request.GetExtend().GetMayShorten() {
		s.shorteningLocked(c)
	}
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

// abandon gives a call up. An Acquire is cancelled, and released if it is granted all the same. Its answer may be here
// already: it is undone, too, if the caller's context has ended, else it counts.
func (s *session) abandon(c *call, err error) answer {
	a, answered := s.disown(c)
	if !answered {
		a.err = err
		return a
	}
	a = <-c.answer // without the mutex: finish answers without it too
	if c.request.GetAcquire() == nil || errors.Is(err, errNoAnswer) {
		return a
	}
	for _, l := range a.locks {
		s.giveBack(l, &call{request: l.releaseRequest(), frees: l})
	}
	return answer{err: err, unsent: a.unsent}
}

// disown marks a call as abandoned unless it is answered already.
func (s *session) disown(c *call) (a answer, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := c.request.GetRequestId()
	if s.pending[id] != c {
		return a, true
	}
	c.abandoned = true
	switch {
	case c.request.GetAcquire() == nil:
	case !c.sent && c.seen: // it asks for nothing any more, but has what it took before given back
		c.request.GetAcquire().Wait = durationpb.New(0)
	case !c.sent:
		a.unsent = true
		delete(s.pending, id) // the writer passes over it
	default:
		s.submitLocked(&call{request: &lockdv1.SessionRequest{
			Message: &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: id}},
		}})
	}
	return a, false
}

// giveBack ends a lock by Unlock, sends its Release, and says whether it was still held.
func (s *session) giveBack(l *Lock, release *call) bool {
	s.mu.Lock()
	if !s.removeLocked(l) {
		s.mu.Unlock()
		return false
	}
	l.finish(ErrUnlocked)
	s.queueLocked(release)
	s.leaveIfIdleLocked()
	s.sendAndUnlock(release)
	return true
}

// expire ends a lock if its deadline has passed.
func (s *session) expire(l *Lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client.now() >= l.end() {
		s.expireLocked(l)
	}
}

// expireLocked ends a lock whose deadline has passed. The server may still be renewing it, so it is told.
func (s *session) expireLocked(l *Lock) {
	if s.removeLocked(l) {
		l.finish(&LostError{Name: l.hold.name, Reason: LostDeadline})
		s.submitLocked(&call{request: l.releaseRequest(), frees: l})
		s.leaveIfIdleLocked()
	}
}

// ring ends all locks that are due and sets the alarm anew.
func (s *session) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm.at = 0
	if s.over {
		return
	}
	for {
		now := s.client.now()
		l, again, ok := s.order.due(now)
		switch {
		case !ok:
			return
		case l == nil:
			s.alarm.set(now, again)
			return
		}
		s.expireLocked(l)
	}
}

// removeLocked takes a lock out and says whether it was there.
func (s *session) removeLocked(l *Lock) bool {
	s.shrinkLocked(l)
	first := s.locks[l.hold]
	switch {
	case first == l && l.next == nil:
		delete(s.locks, l.hold)
	case first == l:
		s.locks[l.hold] = l.next
	default:
		for first != nil && first.next != l {
			first = first.next
		}
		if first == nil {
			return false
		}
		first.next = l.next
	}
	l.next = nil
	s.order.remove(l)
	return true
}

// leaveIfIdleLocked ends a session that the server asked to leave as soon as nothing lives on it, if it cannot go on
// elsewhere.
func (s *session) leaveIfIdleLocked() {
	if s.stream == nil || !s.stream.draining || s.resumableLocked() && !s.stream.stuck {
		return
	}
	if len(s.locks) == 0 && len(s.pending) == 0 {
		s.leaving = true
		s.rouseLocked()
	}
}

// stuck notes that no other replica took the session.
func (s *session) stuck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != nil {
		s.stream.stuck = true
		s.leaveIfIdleLocked()
	}
}

// leave ends all locks and says Goodbye, without waiting for it.
func (s *session) leave(cause error) {
	s.mu.Lock()
	s.leaving = true
	s.busy = s.busy || len(s.locks)+len(s.pending)+len(s.queue) > 0
	s.finishAllLocked(func(*Lock) error { return cause })
	s.rouseLocked()
	s.cut = s.stream == nil && s.parked == nil && !s.over
	cut := s.cut
	s.mu.Unlock()
	if cut { // nobody to say it to
		s.finish(cause)
	}
}

// left waits for the end of a session that Close leaves since begun, or cuts it off. It says whether all is released.
func (s *session) left(begun time.Time) bool {
	s.mu.Lock()
	busy, cut := s.busy, s.cut
	s.mu.Unlock()
	within := closeTimeout
	if !busy || s.late.Load() {
		within = closePause
	}
	timer := time.NewTimer(time.Until(begun.Add(within)))
	defer timer.Stop()
	select {
	case <-s.done:
		return !busy || !cut
	case <-timer.C:
		s.cutOff(ErrClosed)
		<-s.done
		return !busy
	}
}

// cutOff ends its stream.
func (s *session) cutOff(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range []*stream{s.stream, s.parked} {
		if st != nil {
			st.cancel(cause)
		}
	}
}

func (s *session) finishAllLocked(cause func(*Lock) error) {
	for _, first := range s.locks {
		for l := range first.all() {
			l.finish(cause(l))
		}
	}
	clear(s.locks)
	s.order = nil
}

// finish ends the session, which is on no stream any more: all its locks are lost, all its calls unanswered.
func (s *session) finish(cause error) {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	s.alarm.stop()
	s.bell.stop()
	s.finishAllLocked(func(l *Lock) error {
		return &LostError{Name: l.hold.name, Reason: LostSession, Err: cause}
	})
	pending := s.pending
	s.pending, s.queue = nil, nil
	s.mu.Unlock()

	close(s.done)
	for _, c := range pending {
		c.reply(answer{err: fmt.Errorf("%w: %w", errSessionOver, cause), unsent: !c.sent && !c.seen})
	}
}

func (c *call) reply(a answer) {
	switch {
	case c.then != nil:
		c.then(a)
	case c.answer != nil:
		c.answer <- a
	}
}
