package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

var (
	// errLeft: the session goes on in another stream.
	errLeft = errors.New("the session has left the stream")
	// errBroken: the stream ended before the answer came, and asking again could undo what others did since.
	errBroken = errors.New("the stream ended before the answer came")
	// errNotTold: a replica that goes on with a session does not say what became of a lock.
	errNotTold = fmt.Errorf("%w: nothing was told of the lock after the session was resumed", errProtocol)
)

// overLocked takes the session off a stream that ended. The session goes on in another one, unless it cannot.
func (st *stream) overLocked(err error) {
	s, c := st.session, st.session.client
	cause := cmp.Or(context.Cause(st.ctx), st.closing, fromStream(err)) // ours, the server's, that of gRPC
	s.stream = nil
	st.countLocked()
	st.close(cause)
	if !s.resumableLocked() || !st.brokeLocked(cause) {
		c.endSessionLocked(s, cause)
		return
	}
	c.tellLocked(Status{State: Interrupted, Err: cause})
	c.moveLocked(s, true)
}

// countLocked counts short streams in a row. After a longer one connecting begins without a pause.
func (st *stream) countLocked() {
	c := st.session.client
	c.failures++
	if c.now()-st.beats.opened > instant(st.interval) {
		c.failures = 0
	}
}

// brokeLocked says whether the session outlives a stream that ended with this cause.
func (st *stream) brokeLocked(cause error) bool {
	switch {
	case st.session.client.settings.open.GetOnDisconnect() == lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE, hopeless(cause),
		is(cause, ErrClosed, ErrSilent, ErrBacklog, ErrSessionExpired, ErrQuota, errProtocol):
		return false
	case errors.Is(cause, ErrSuperseded): // perhaps by an attempt of ours that we have not heard of
		return st.session.epoch > st.epoch
	}
	return true
}

// resumableLocked says whether the session can go on in another stream.
func (s *session) resumableLocked() bool { return !s.leaving && !s.over }

// displacedLocked says whether the session needs another stream: it has none, or the server drains or is silent.
func (s *session) displacedLocked() bool {
	return s.stream == nil || s.stream.draining || s.stream.silent
}

// bid is an attempt to go on with a session.
type bid struct {
	resume  *lockdv1.Resume
	claimed map[holdKey]*lockdv1.HeldLock // what it names
	now     instant
}

// bid begins an attempt. Until it is over nothing is sent on the stream that there is, and what comes on it waits, but
// for answers to heartbeats: the other replica would not know of locks granted there now. Each attempt has an epoch of
// its own, because the outcome of the last one may not be known.
func (s *session) bid() (b *bid, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.resumableLocked() {
		return nil, false
	}
	s.parked, s.stream = s.stream, nil
	s.epoch++
	s.nextID++ // that of Open
	b = &bid{claimed: make(map[holdKey]*lockdv1.HeldLock, len(s.holds)), now: s.client.now()}
	b.resume = &lockdv1.Resume{
		SessionId: s.id, ResumeToken: s.token, Epoch: s.epoch, LastRequestId: s.nextID,
		Age: durationpb.New(time.Duration(b.now - s.opened)),
	}
	for _, h := range s.holds {
		for _, l := range slices.Backward(h.locks) {
			b.name(l)
		}
	}
	for _, c := range s.pending {
		if c.freesAll() {
			b.name(c.frees)
		}
	}
	for _, c := range s.pending {
		if keep := c.request.GetRelease().GetKeep(); c.frees != nil && keep > 0 {
			if h := b.claimed[c.frees.hold.key]; h != nil { // the others may be gone
				h.Permits = min(max(h.GetPermits(), 1), keep)
			}
		}
	}
	b.trim(s.frameBytes())
	return b, true
}

// trim leaves out annotations, the last ones first, until Resume fits into one frame: the holds must get through, texts
// for people need not.
func (b *bid) trim(most int) {
	size := proto.Size(b.resume)
	for _, h := range slices.Backward(b.resume.GetHolds()) {
		if size <= most {
			return
		}
		size -= len(h.GetAnnotation())
		h.Annotation = ""
	}
}

// name adds a Lock to the holds of Resume, perhaps to one that is there already.
func (b *bid) name(l *Lock) {
	h := b.claimed[l.hold.key]
	if h == nil {
		h = &lockdv1.HeldLock{Hold: l.proto(), Permits: l.permits}
		if most := l.hold.most; most != 0 {
			h.MaxHold = durationpb.New(time.Duration(max(most-b.now, 0)))
		}
		b.claimed[l.hold.key] = h
		b.resume.Holds = append(b.resume.Holds, h)
	}
	if h.GetHold().GetFence() == l.fence {
		h.HoldCount++
		if age := time.Duration(b.now - l.granted); h.GetAge() == nil || age >= h.GetAge().AsDuration() {
			h.Age, h.Annotation = durationpb.New(age), l.annotation // of the first one, as the server keeps it
		}
		h.Auto = h.GetAuto() || l.hold.auto
	}
}

// unpark ends an attempt that failed: the session goes on in the stream that it was on, if there is one.
func (s *session) unpark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.parked; st != nil {
		s.stream, s.parked = st, nil
		s.decided.Broadcast()
		st.rouse()
	}
}

// attach has the session begin, or go on, in a stream, and watches it for silence. Unanswered requests are sent again.
// It returns false if the session is over.
func (s *session) attach(st *stream, b *bid, opened *lockdv1.Opened) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.stream, s.at, s.ttl = st, st.at, st.ttl
	s.id, s.token = cmp.Or(s.id, opened.GetSessionId()), cmp.Or(opened.GetResumeToken(), s.token)
	s.limits.Store(opened.GetLimits())
	st.heard.Store(int64(s.client.now()))
	st.beat = time.NewTicker(firstBeat(st.interval))
	st.quiet = time.AfterFunc(st.patience(), st.listen)
	s.resumedLocked(st, b, opened)
	s.askAgainLocked()
	st.rouse()
	if old := s.parked; old != nil {
		s.parked = nil
		s.decided.Broadcast()
		old.cancel(errLeft)
	}
	return true
}

// resumedLocked notes what Opened says of the holds.
func (s *session) resumedLocked(st *stream, b *bid, opened *lockdv1.Opened) {
	freeing := s.releasesLocked()
	for _, r := range opened.GetResumed() {
		key, fence := keyOf(r.GetHold()), r.GetHold().GetFence()
		delete(b.claimed, key)
		if h := s.holds[key]; h != nil && h.locks[len(h.locks)-1].fence == fence {
			s.raiseLocked(h, st.beats.validity(r.GetValidity()))
		} else if !slices.ContainsFunc(freeing[key], (*call).freesAll) {
			s.submitLocked(s.newLock(context.Background(), r.GetHold()).releaseCall())
		}
	}
	for _, lost := range opened.GetLost() {
		key := keyOf(lost.GetHold())
		delete(b.claimed, key)
		s.lostLocked(lost)
		s.freeLocked(freeing[key])
	}
	for key, claim := range b.claimed { // nobody renews these
		s.endLocked(s.holds[key], claim.GetHold().GetFence(),
			&LostError{Name: key.name, Reason: LostSession, Err: errNotTold})
		s.freeLocked(freeing[key])
	}
}

// releasesLocked are the releases that are not answered, by what they release: there may be as many as holds.
func (s *session) releasesLocked() map[holdKey][]*call {
	all := make(map[holdKey][]*call)
	for _, c := range s.pending {
		if c.frees != nil {
			all[c.frees.hold.key] = append(all[c.frees.hold.key], c)
		}
	}
	return all
}

// freeLocked answers the releases of a hold that is gone. One that the server may have seen has succeeded: it was
// carried out, or nothing was left to release.
func (s *session) freeLocked(releases []*call) {
	for _, c := range releases {
		id := c.request.GetRequestId()
		if s.pending[id] != c {
			continue
		}
		delete(s.pending, id)
		var a answer
		if !c.sent && !c.seen {
			a.err = refused(codes.FailedPrecondition, "LOCK_NOT_HELD", "the lock was lost before")
		}
		c.replyLocked(a)
	}
}

// askAgainLocked has all that is not answered sent on the new stream, with new ids, releases first, else in the same
// order.
func (s *session) askAgainLocked() {
	calls := slices.Collect(maps.Values(s.pending))
	for _, c := range s.queue {
		if !c.tracked() {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *call) int {
		if a.releases() != b.releases() { // what is being released must not be held once more
			return cmp.Compare(b.releases(), a.releases())
		}
		return cmp.Compare(a.request.GetRequestId(), b.request.GetRequestId())
	})
	clear(s.pending)
	clear(s.queue)
	s.queue = s.queue[:0]
	for _, c := range calls {
		s.againLocked(c)
	}
}

// releases is 1 for a Release, else 0.
func (c *call) releases() int {
	if c.request.GetRelease() != nil {
		return 1
	}
	return 0
}

// againLocked has one call sent again, unless that means nothing on another stream. The call gets a new message,
// because the old one may still be under way.
func (s *session) againLocked(c *call) {
	message, seen := c.request.GetMessage(), c.sent || c.seen
	switch t := message.(type) {
	case *lockdv1.SessionRequest_Cancel: // of an id that nobody knows any more
		return
	case *lockdv1.SessionRequest_Acquire:
		s.acquireAgainLocked(c, t.Acquire)
		return
	case *lockdv1.SessionRequest_SetLimit:
		if seen {
			c.replyLocked(answer{err: errBroken})
			return
		}
	case *lockdv1.SessionRequest_Release, *lockdv1.SessionRequest_Extend:
	default:
		if c.then != nil || c.abandoned { // a Watch that the Client repeats by itself; or nobody waits for the answer
			return
		}
	}
	c.request = &lockdv1.SessionRequest{Message: message}
	c.seen, c.sent = seen, false
	s.numberLocked(c)
}

// mostFormer is how many former ids of a request a server takes.
const mostFormer = 16

// acquireAgainLocked asks for a lock again, with what is left of the wait. The server undoes what the request may have
// taken under its former ids; a fair request keeps the place that it has under one of them. An abandoned request is
// sent only to have that undone.
func (s *session) acquireAgainLocked(c *call, a *lockdv1.Acquire) {
	former := c.formerLocked(a)
	if c.abandoned && len(former) == 0 {
		return
	}
	r, now := c.asks, s.client.now()
	again := r.again(a, now)
	again.InsteadOf = former
	if c.abandoned {
		again.Wait = durationpb.New(0)
	}
	c.request = &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: again}}
	c.seen, c.sent, c.waits = c.seen || c.sent, false, false
	s.numberLocked(c)
}

// formerLocked are the ids under which a request may have a lock or a place. If it was told that it waits, it has
// nothing under earlier ids. If more than mostFormer streams in a row ended without an answer, the oldest ids are
// dropped: a lease that was taken under one of them ends by itself.
func (c *call) formerLocked(a *lockdv1.Acquire) []uint64 {
	switch {
	case !c.sent:
		return a.GetInsteadOf()
	case c.waits:
		return []uint64{c.request.GetRequestId()}
	}
	former := a.GetInsteadOf()
	former = former[max(0, len(former)+1-mostFormer):]
	return append(slices.Clone(former), c.request.GetRequestId())
}

// again is the next message of a request that was sent before: it says for how long the request has waited.
func (r *request) again(a *lockdv1.Acquire, now instant) *lockdv1.Acquire {
	again := proto.CloneOf(a)
	again.InsteadOf, again.Wait, again.Waited = nil, r.left(now), durationpb.New(time.Duration(now-r.begun))
	return again
}
