package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// ResumeRequest goes on with a session.
type ResumeRequest struct {
	OpenRequest
	ID, Token string
	// Epoch is greater than in each attempt before.
	Epoch uint64
	// LastRequest is the greatest request id of the session so far.
	LastRequest uint64
	// Holds are what the client believes to hold.
	Holds []session.HeldLock
}

// maxEpoch is where numbers are exact in the store's scripts.
const maxEpoch = 1 << 53

const (
	// unsettled counts AnswerTimes. For so long the replica that a session left may still shorten a lease: one until it
	// begins, and two tries at the store. Meanwhile the new replica trusts the earlier end only, and does not answer a
	// client that repeats the request.
	unsettled = 3
	// unheard is a factor of the most locks that a session may hold. A resume may name so many, because it also names
	// locks whose release was not answered before others were granted in their place.
	unheard = 2
	// leastPatience is the shortest time that a session waits until it may be resumed. Else it is a third of its TTL.
	leastPatience = time.Second
)

// resumes have the sessions that come.
type resumes struct {
	all, large limits.Quota
	returning  atomic.Int64 // how many are being resumed, or wait for that
	holds      atomic.Int64 // that large ones bring, with those that wait
	verifying  limits.Room  // holds that the store is asked for
}

func newResumes(denied limits.Denied) resumes {
	return resumes{
		all:       limits.NewQuota("resumes", limits.Resumes, denied),
		large:     limits.NewQuota("resumes", limits.LargeResumes, denied),
		verifying: make(limits.Room, limits.Verifying),
	}
}

// mayReturn waits until one more session with so many holds may be resumed. Call left when it is.
func (b *Broker) mayReturn(ctx context.Context, ttl time.Duration, holds int) (left func(), err error) {
	rooms := []limits.Quota{b.resumes.all}
	if holds > limits.VerifyingEach { // while it waits among those it is in nobody's way
		rooms = []limits.Quota{b.resumes.large, b.resumes.all}
	} else {
		holds = 0
	}
	b.resumes.returning.Add(1)
	var in int
	left = func() {
		for _, room := range rooms[:in] {
			room.Leave()
		}
		b.resumes.holds.Add(-int64(holds))
		b.resumes.returning.Add(-1)
	}
	if b.resumes.holds.Add(int64(holds)) > limits.ResumedHolds && holds > 0 {
		left()
		return nil, b.metrics.denied("resumes", limits.ResumedHolds)
	}
	late := time.Now().Add(max(ttl/3, leastPatience))
	for in < len(rooms) {
		if err = rooms[in].Enter(ctx, time.Until(late)); err != nil {
			left()
			if !errors.Is(err, session.ErrQuota) { // ctx is over
				err = fmt.Errorf("wait to resume: %w: %w", lock.ErrUnavailable, err)
			}
			return nil, err
		}
		in++
	}
	return left, nil
}

// Resume goes on with a session that began here or at another replica, and with those of its holds that are still
// there. It says which those are, and which are lost. From its first answer on no other replica has the session.
//
// It asks the store, and takes as long as that does. An error that is Retriable leaves everything as it was but the
// epoch.
func (b *Broker) Resume(ctx context.Context, req ResumeRequest) (s *Session, lost []session.Lost, err error) {
	defer func() { b.metrics.resumed(err) }()
	ttl, err := b.rules.Open(req.Client, req.TTL, req.Actor)
	if err == nil {
		err = b.checkResume(req, ttl)
	}
	if err != nil {
		return nil, nil, err
	}
	left, err := b.mayReturn(ctx, ttl, len(req.Holds))
	if err != nil {
		return nil, nil, err
	}
	defer left()
	s = b.newSession(req.OpenRequest, req.ID, ttl, req.LastRequest)
	s.record.SessionRecord, s.record.token = b.newRecord(req.Client, req.ID, req.Token, req.Epoch), req.Token
	if err := b.takeOver(ctx, s); err != nil {
		return nil, nil, err
	}
	b.tellMoved(s.record.SessionRecord)
	s.settled = time.Now().Add(unsettled * b.cfg.AnswerTime)
	if before := b.session(req.ID); before != nil {
		before.end(session.ErrSuperseded, false)
	}
	found, lost, err := b.verifyHolds(ctx, s, req.Holds)
	if err != nil {
		return nil, nil, err
	}
	if err := b.joinInstead(s, req.Slot); err != nil {
		return nil, nil, err
	}
	for _, l := range found {
		b.adopt(l)
	}
	b.log.Debug("session resumed", zap.String(observe.KeySession, s.ID()), zap.Uint64(observe.KeyEpoch, req.Epoch),
		zap.Int(observe.KeyCount, len(found)), zap.Int(observe.KeyLost, len(lost)))
	return s, lost, nil
}

// joinInstead makes a session one of the broker's in place of an earlier attempt, which may have come here meanwhile.
// So may a later one, which has the session then.
func (b *Broker) joinInstead(s *Session, slot *limits.Slot) error {
	for {
		before, err := b.join(s, slot)
		switch {
		case err != nil:
			return err
		case before == nil:
			return nil
		case before.record.Epoch >= s.record.Epoch:
			return session.ErrSuperseded
		}
		before.end(session.ErrSuperseded, false)
	}
}

// takeOver has the store give this attempt the session.
func (b *Broker) takeOver(ctx context.Context, s *Session) error {
	err := twice(func() error { return b.store.TakeSession(ctx, s.record.SessionRecord, recordTTL(s.TTL())) })
	if errors.Is(err, lock.ErrSessionGone) || errors.Is(err, lock.ErrToken) { // a stranger is not told which
		return session.ErrSessionExpired
	}
	return err
}

// checkResume says whether a session can go on so.
func (b *Broker) checkResume(req ResumeRequest, ttl time.Duration) error {
	most := unheard * min(b.cfg.Limits.LocksPerSession, session.Upkeep(ttl))
	switch {
	case !idForm.MatchString(req.ID), req.Token == "", len(req.Token) > 256:
		return session.ErrSessionExpired
	case req.Epoch < 2 || req.Epoch >= maxEpoch:
		return lock.Invalid("resume.epoch", lock.ReasonMessage,
			"must be greater than in each stream before, which began with 1")
	case len(req.Holds) > most:
		return b.metrics.denied("locks", most)
	}
	if err := request.Past("resume.age", req.Age); err != nil {
		return err
	}
	named := make(map[holdKey]bool, len(req.Holds))
	weight := 0
	for i := range req.Holds {
		h := &req.Holds[i]
		if err := b.checkHold(h, req.LastRequest); err != nil {
			return lock.Within(fmt.Sprintf("resume.holds[%d]", i), err)
		}
		key := holdKey{h.Hold.Name, h.Hold.Kind, h.Hold.Holder}
		if named[key] {
			return lock.Within(fmt.Sprintf("resume.holds[%d]", i), badHold("hold", "is named twice"))
		}
		named[key] = true
		weight += upkeepOf(h.Permits)
	}
	if weight > unheard*session.Upkeep(ttl) {
		return b.metrics.denied("locks", unheard*session.Upkeep(ttl))
	}
	return nil
}

func badHold(field, what string) error {
	return lock.Invalid(field, lock.ReasonMessage, what)
}

// checkHold says whether a session can have such a hold. Fields are those of a HeldLock.
func (b *Broker) checkHold(h *session.HeldLock, last uint64) error {
	if err := b.rules.NameKind(h.Hold.Name, h.Hold.Kind); err != nil {
		return lock.Within("hold", err)
	}
	own := "#" + strconv.FormatUint(h.Hold.AcquiredBy, 10)
	switch {
	case h.Hold.Fence == 0:
		return badHold("hold.fence", "must be told as in Granted")
	case h.Hold.AcquiredBy == 0 || h.Hold.AcquiredBy > last:
		return badHold("hold.acquired_by", "must be told as in Granted, and not be greater than last_request_id")
	case strings.HasPrefix(h.Hold.Holder, "#") && h.Hold.Holder != own:
		return badHold("hold.holder", "differs from acquired_by")
	case h.Count > lock.MaxHolds:
		return badHold("hold_count", "is more than anybody can hold")
	case h.Permits > lock.MaxPermits:
		return badHold("permits", "is more than anybody can hold")
	}
	if !strings.HasPrefix(h.Hold.Holder, "#") {
		if err := b.rules.Holder(h.Hold.Holder); err != nil {
			return lock.Within("hold", err)
		}
	}
	if err := cmp.Or(request.Past("age", h.Age), b.rules.Annotation(h.Annotation)); err != nil {
		return err
	}
	h.Count = max(h.Count, 1)
	h.Permits = request.PermitsOf(h.Hold.Kind, h.Permits)
	return nil
}

// ownerOf is the owner in the store of what a request of the session took.
func ownerOf(id, holder string, request uint64) lock.Owner {
	mark := "#" + strconv.FormatUint(request, 10)
	if strings.HasPrefix(holder, "#") {
		holder = ""
	}
	return lock.Owner(id + ":" + holder + mark)
}

// verifyHolds prolongs the holds that are there. The others are lost. It stops when the store does not answer for one.
func (b *Broker) verifyHolds(ctx context.Context, s *Session,
	holds []session.HeldLock,
) (found []*Lease, lost []session.Lost, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outcomes := make([]error, len(holds))
	leases := make([]*Lease, len(holds))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(limits.VerifyingEach, len(holds)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(holds) && ctx.Err() == nil; i = next.Add(1) - 1 {
				leases[i] = b.claimedLease(s, holds[i])
				if outcomes[i] = b.verify(ctx, leases[i]); isFatal(outcomes[i]) {
					stop(outcomes[i])
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	for i, err := range outcomes {
		if err == nil {
			found = append(found, leases[i])
			continue
		}
		lost = append(lost, b.lostBy(holds[i].Hold, reasonOf(err)))
	}
	return found, lost, nil
}

// isFatal says whether nobody knows what became of a hold.
func isFatal(err error) bool {
	_, gone := errors.AsType[*lock.GoneError](err)
	return err != nil && !gone && !errors.Is(err, lock.ErrKindMismatch)
}

// verify asks for a hold when it is its turn, of those of all sessions that come.
func (b *Broker) verify(ctx context.Context, l *Lease) error {
	if err := b.resumes.verifying.Enter(ctx); err != nil {
		return err
	}
	defer b.resumes.verifying.Leave()
	return l.verify(ctx)
}

// claimedLease is a lease that a client says it has. What the replica it comes from has under way may take the lock
// once more, so what is renewed is compared with its fence, and what is released is released again a little later. How
// many permits it had at first is not known: the client tells how many are to stay.
func (b *Broker) claimedLease(s *Session, h session.HeldLock) *Lease {
	l := &Lease{
		b: b, sess: s, name: h.Hold.Name, kind: h.Hold.Kind, holder: h.Hold.Holder, request: h.Hold.AcquiredBy,
		owner: ownerOf(s.ID(), h.Hold.Holder, h.Hold.AcquiredBy), fence: h.Hold.Fence, permits: h.Permits,
		auto: h.Auto, count: h.Count, lateGrant: true, extras: nothing,
	}
	if h.Age > 0 || h.Annotation != "" {
		l.own().before, l.own().annotation = request.PastOf(h.Age), h.Annotation
	}
	return l
}

// verify finds out whether the hold is there, and until when. An auto lease is prolonged.
func (l *Lease) verify(ctx context.Context) (err error) {
	defer func() { l.since = l.b.stamp(time.Now()) }()
	r, start := l.verification(), time.Now()
	r.TTL = time.Millisecond
	if l.auto {
		r.TTL = l.sess.TTL()
	}
	if l.until, err = l.b.extendOne(ctx, r, false); err == nil {
		l.seen = l.b.stamp(start)
	}
	return err
}

// adopt makes a lease that was verified one of its session.
func (b *Broker) adopt(l *Lease) {
	h := b.shardOf(l.name)
	h.mu.Lock()
	defer h.mu.Unlock()
	l.q = b.queueLocked(l.name)
	if !l.sess.Adopt(l, upkeepOf(l.permits), l.auto, l.until) {
		l.q.dropIdleLocked()
		return
	}
	l.q.holdLocked(l)
	h.leases.ReplaceOrInsert(l)
	b.metrics.heldLocked(l)
	b.keeper.Keep(l, l.until)
}

// Resumed are the holds of a session that has just come.
func (s *Session) Resumed() (all []session.HeldLock) {
	for _, l := range s.Leases() {
		all = l.describe(all)
	}
	return all
}

// idForm is that of the ids that newID makes.
var idForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
