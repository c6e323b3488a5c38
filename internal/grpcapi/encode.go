package grpcapi

import (
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// batchSize and batchBytes bound the messages of one frame, so that it stays far below what clients accept, and so that
// the client has work while the rest is written.
const (
	batchSize  = 64
	batchBytes = 64 << 10
)

// kinds are the kinds on the wire.
var kinds = [lock.KindNumbers]lockdv1.LockKind{
	lock.Exclusive: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE,
	lock.Fair:      lockdv1.LockKind_LOCK_KIND_FAIR,
	lock.Read:      lockdv1.LockKind_LOCK_KIND_READ,
	lock.Write:     lockdv1.LockKind_LOCK_KIND_WRITE,
	lock.Semaphore: lockdv1.LockKind_LOCK_KIND_SEMAPHORE,
}

func fromKind(k lock.Kind) lockdv1.LockKind {
	if !k.Valid() {
		return lockdv1.LockKind_LOCK_KIND_UNSPECIFIED
	}
	return kinds[k]
}

// toKind translates a kind; one that does not exist becomes one the broker refuses.
func toKind(k lockdv1.LockKind) lock.Kind {
	if k == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		return lock.Exclusive
	}
	return lock.Kind(max(slices.Index(kinds[:], k), 0)) //nolint:gosec // less than len(kinds)
}

// answer is memory for a message that tells an event, and for the content of the most frequent ones.
type answer struct {
	lockdv1.SessionResponse
	toGranted      lockdv1.SessionResponse_Granted
	granted        lockdv1.Granted
	hold           lockdv1.Hold
	holds          [1]*lockdv1.Hold
	validity       lockdv1.Validity
	remaining, age durationpb.Duration
	toReleased     lockdv1.SessionResponse_Released
	released       lockdv1.Released
}

func (a *answer) grant(e session.Granted) {
	setHold(&a.hold, e.Hold)
	a.holds[0] = &a.hold
	a.granted.Holds = a.holds[:]
	for _, h := range e.More { // in the order in which they were asked for
		a.granted.Holds = append(a.granted.Holds, fromHold(h))
	}
	a.validity.Remaining, a.validity.AnchorAge = &a.remaining, &a.age
	setValidity(&a.validity, e.Validity)
	a.granted.Validity, a.granted.HoldCount, a.granted.Auto = &a.validity, e.Count, e.Auto
	a.granted.MaxHold = leftUntil(e.Most)
	a.toGranted.Granted = &a.granted
	a.RequestId, a.Message = e.ID, &a.toGranted
}

func (a *answer) release(e session.Released) {
	a.released.Remaining = e.Remaining
	if e.Remaining > 0 {
		a.released.Validity = fromValidity(e.Validity)
	}
	a.toReleased.Released = &a.released
	a.RequestId, a.Message = e.ID, &a.toReleased
}

func fromHold(h session.Hold) *lockdv1.Hold {
	m := &lockdv1.Hold{}
	setHold(m, h)
	return m
}

func setHold(m *lockdv1.Hold, h session.Hold) {
	m.Name, m.Kind, m.Holder, m.Fence, m.AcquiredBy = h.Name, fromKind(h.Kind), h.Holder, uint64(h.Fence), h.AcquiredBy
}

func fromValidity(v session.Validity) *lockdv1.Validity {
	m := &lockdv1.Validity{Remaining: &durationpb.Duration{}, AnchorAge: &durationpb.Duration{}}
	setValidity(m, v)
	return m
}

// setValidity is called when the message is written, so that the time in the outbox counts.
func setValidity(m *lockdv1.Validity, v session.Validity) {
	now := time.Now()
	setDuration(m.GetRemaining(), max(v.Until.Sub(now), 0))
	m.Anchor = v.Anchor
	setDuration(m.GetAnchorAge(), now.Sub(v.AnchorAt))
	m.UntilMaxHold = v.Most
}

// leftUntil is how long it is until a time; nil if there is none.
func leftUntil(t time.Time) *durationpb.Duration {
	if t.IsZero() {
		return nil
	}
	return durationpb.New(max(time.Until(t), 0))
}

func setDuration(m *durationpb.Duration, d time.Duration) {
	m.Seconds, m.Nanos = int64(d/time.Second), int32(d%time.Second) //nolint:gosec // less than 2^30
}

// optional is nil for 0, which stands for "not known".
func optional(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// set translates an event into the message, which is empty.
func (a *answer) set(e session.Event) {
	r := &a.SessionResponse
	switch e := e.(type) {
	case session.Granted:
		if !e.Auto && !time.Now().Before(e.Validity.Until) { // the lease ended while the grant was in the outbox
			a.set(session.Failed{ID: e.ID, Err: lock.ErrOutcomeUnknown})
			return
		}
		a.grant(e)
	case session.NotGranted:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_NotGranted{NotGranted: fromNotGranted(e)}
	case session.Queued:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_Queued{Queued: fromQueued(e)}
	case session.Released:
		a.release(e)
	case session.Extended:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_Extended{
			Extended: &lockdv1.Extended{Validity: fromValidity(e.Validity)},
		}
	case session.Done:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_Result{Result: &lockdv1.Result{}}
	case session.Failed:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_Result{
			Result: &lockdv1.Result{Failure: toFailure(e.Err)},
		}
	case session.Looked:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_Looked{Looked: &lockdv1.Looked{Lock: fromLock(e.Lock)}}
	case session.HoldList:
		list := &lockdv1.HoldList{NextPageToken: e.Next}
		for _, l := range e.Locks {
			list.Locks = append(list.Locks, fromHeldLock(l))
		}
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_HoldList{HoldList: list}
	case session.LimitSet:
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_LimitSet{LimitSet: &lockdv1.LimitSet{Previous: e.Previous}}
	default:
		setPush(r, e)
	}
}

func fromHeldLock(l session.HeldLock) *lockdv1.HeldLock {
	return &lockdv1.HeldLock{
		Hold: fromHold(l.Hold), Validity: fromValidity(l.Validity), HoldCount: l.Count, Auto: l.Auto, Permits: l.Permits,
		MaxHold: leftUntil(l.Most),
	}
}

func fromLost(l session.Lost) *lockdv1.Lost {
	m := &lockdv1.Lost{Hold: fromHold(l.Hold), Reason: lostReasons[l.Reason], By: l.Who(), Why: l.Why}
	if l.Reason == lock.LostMaxHold {
		m.Cause = lockdv1.Lost_CAUSE_MAX_HOLD
	}
	return m
}

// setPush is set for the events that answer no request, and for HeartbeatAck, whose request may have no id.
func setPush(r *lockdv1.SessionResponse, e session.Event) {
	switch e := e.(type) {
	case session.HeartbeatAck:
		ack := &lockdv1.HeartbeatAck{SentId: e.SentID}
		if !e.Until.IsZero() {
			ack.ValidFor = durationpb.New(max(time.Until(e.Until), 0))
		}
		r.RequestId, r.Message = e.ID, &lockdv1.SessionResponse_HeartbeatAck{HeartbeatAck: ack}
	case session.Lost:
		r.Message = &lockdv1.SessionResponse_Lost{Lost: fromLost(e)}
	case session.AtRisk:
		r.Message = &lockdv1.SessionResponse_AtRisk{AtRisk: &lockdv1.AtRisk{Validity: fromValidity(e.Validity)}}
	case session.Safe:
		r.Message = &lockdv1.SessionResponse_Safe{Safe: &lockdv1.Safe{}}
	case session.Unlocked:
		r.Message = &lockdv1.SessionResponse_Unlocked{Unlocked: &lockdv1.Unlocked{
			Name: e.Name, Cause: unlockCauses[e.Cause], Fence: uint64(e.Fence), Merged: e.Merged, Hold: e.Hold,
		}}
	case session.Unwatched:
		r.Message = &lockdv1.SessionResponse_Unwatched{Unwatched: &lockdv1.Unwatched{Name: e.Name, Failure: toFailure(e.Err)}}
	case session.Draining:
		r.Message = &lockdv1.SessionResponse_Draining{Draining: &lockdv1.Draining{ReconnectWithin: durationpb.New(e.Within)}}
	default:
		panic("an event without a message")
	}
}

func fromQueued(e session.Queued) *lockdv1.Queued {
	q := &lockdv1.Queued{Position: count(e.Position)}
	if by := e.By; by != nil {
		q.HeldBy, q.Name, q.Client, q.Annotation, q.Peer = string(by.HeldBy), by.Name, by.Client, by.Annotation, by.Peer
		q.HeldFor = optional(by.HeldFor)
	}
	return q
}

func fromNotGranted(e session.NotGranted) *lockdv1.NotGranted {
	n := &lockdv1.NotGranted{
		RetryAfter: optional(e.RetryAfter), HeldBy: string(e.HeldBy), Name: e.Name,
		Client: e.Client, Annotation: e.Annotation, Peer: e.Peer, HeldFor: optional(e.HeldFor),
	}
	switch {
	case errors.Is(e.Cause, session.ErrTimedOut):
		n.Cause = lockdv1.NotGranted_CAUSE_TIMED_OUT
	case errors.Is(e.Cause, session.ErrCancelled):
		n.Cause = lockdv1.NotGranted_CAUSE_CANCELLED
	default:
		n.Cause = lockdv1.NotGranted_CAUSE_HELD
	}
	return n
}

// lostReasons are why a hold was lost, on the wire.
var lostReasons = map[lock.LostReason]lockdv1.Lost_Reason{
	lock.LostExpired: lockdv1.Lost_REASON_EXPIRED,
	lock.LostForced:  lockdv1.Lost_REASON_FORCED,
	lock.LostData:    lockdv1.Lost_REASON_DATA_LOSS,
	lock.LostSession: lockdv1.Lost_REASON_SESSION_ENDED,
	lock.LostQuorum:  lockdv1.Lost_REASON_NO_QUORUM,

	lock.LostForbidden: lockdv1.Lost_REASON_FORBIDDEN,
	lock.LostMaxHold:   lockdv1.Lost_REASON_EXPIRED,
}

func fromSession(b *broker.Broker, s *broker.Session) *lockdv1.Opened {
	l := b.Limits()
	return &lockdv1.Opened{
		SessionId:         s.ID(),
		ResumeToken:       s.Token(),
		SessionTtl:        durationpb.New(s.TTL()),
		HeartbeatInterval: durationpb.New(s.HeartbeatInterval()),
		Replica:           b.Replica(),
		Features:          []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH, lockdv1.Feature_FEATURE_RESUME},
		Limits: &lockdv1.Limits{
			NameBytes: count(l.NameBytes), HolderBytes: count(l.HolderBytes), AnnotationBytes: count(l.AnnotationBytes),
			FrameBytes: count(l.FrameBytes), LocksPerSession: count(s.MaxLocks()),
			WaitersPerSession: count(l.WaitersPerSession), WatchesPerSession: count(l.WatchesPerSession),
			NamesPerAcquire: count(l.NamesPerAcquire), PermitsPerAcquire: lock.MaxPermits, HoldCount: lock.MaxHolds,
			MinLease: durationpb.New(l.MinLease), MaxLease: durationpb.New(l.MaxLease), MaxWait: durationpb.New(l.MaxWait),
			MaxHold: durationpb.New(l.MaxLease),
		},
	}
}

// count is a number that is never negative and far from 2^32.
func count(n int) uint32 { return uint32(max(n, 0)) } //nolint:gosec // see above

func fromLock(i session.LockInfo) *lockdv1.LockState {
	st := &lockdv1.LockState{
		Name: i.Name, Kind: fromKind(i.Kind), Held: i.Held, HeldBy: string(i.Owner), Client: i.Client, Fence: uint64(i.Fence),
		HoldCount: i.Count, Waiters: count(i.Waiters), Annotation: i.Annotation,
		Holders: i.Holders, Limit: i.Limit, Queued: i.Queued, Members: i.Members,
	}
	if i.Held && i.TTL != lock.NoTTL {
		st.Ttl = durationpb.New(i.TTL)
	}
	return st
}

// unlockCauses are what ended a hold, on the wire.
var unlockCauses = map[lock.EndCause]lockdv1.Unlocked_Cause{
	lock.EndUnknown:    lockdv1.Unlocked_CAUSE_UNSPECIFIED,
	lock.EndReleased:   lockdv1.Unlocked_CAUSE_RELEASED,
	lock.EndHandedOver: lockdv1.Unlocked_CAUSE_HANDED_OVER,
	lock.EndExpired:    lockdv1.Unlocked_CAUSE_EXPIRED,
	lock.EndForced:     lockdv1.Unlocked_CAUSE_FORCED,
	lock.EndDataLoss:   lockdv1.Unlocked_CAUSE_DATA_LOSS,
}
