package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
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
	Holds []HeldLock
}

const (
	// unsettled is for how many AnswerTimes the replica that a session left may still shorten a lease: one until it
	// begins, and two for its calls of the store. Until then the earlier end counts, and the new replica does not answer a
	// client that repeats the request.
	unsettled = 3
	// leastPatience is for how long a session waits at least until it may be resumed. Else that is a third of its TTL.
	leastPatience = time.Second
)

// resumes bounds the sessions that are being resumed.
type resumes struct {
	all, large limits.Quota
	returning  atomic.Int64 // how many are being resumed, or wait for that
	holds      atomic.Int64 // of large sessions, also of those that wait
	verifying  limits.Slots // holds that the store is asked for
}

func newResumes(denied limits.Denied) resumes {
	return resumes{
		all:       limits.NewQuota("resumes", limits.Resumes, denied),
		large:     limits.NewQuota("resumes", limits.LargeResumes, denied),
		verifying: make(limits.Slots, limits.Verifying),
	}
}

// inTurn resumes a session with some holds, as soon as not too many others are being resumed.
func (r *Registry) inTurn(ctx context.Context, ttl time.Duration, holds int, resume func() error) error {
	in := &r.resumes
	in.returning.Add(1)
	defer in.returning.Add(-1)
	quotas := []limits.Quota{in.all}
	if holds > limits.VerifyingEach {
		defer in.holds.Add(-int64(holds))
		if in.holds.Add(int64(holds)) > limits.ResumedHolds {
			return r.cfg.Denied("resumes", limits.ResumedHolds)
		}
		quotas = []limits.Quota{in.large, in.all} // while it waits among the large ones it is in nobody's way
	}
	late := time.Now().Add(max(ttl/3, leastPatience))
	for _, quota := range quotas {
		switch err := quota.Enter(ctx, time.Until(late)); {
		case errors.Is(err, ErrQuota):
			return err
		case err != nil: // ctx is over
			return fmt.Errorf("wait to resume: %w: %w", lock.ErrUnavailable, err)
		}
		defer quota.Leave()
	}
	return resume()
}

// Claim finds out whether a session has a hold, and until when: a lease, or that it was lost. An error says that nobody
// knows.
type Claim func(context.Context, HeldLock) (Lease, Lost, error)

// Resume goes on with a session that began here or at another replica, and with those of its holds that are still
// there. It says which are lost. From its first answer on no other replica has the session.
//
// It asks the store, and takes as long as that does. An error that is Retriable leaves everything as it was but the
// epoch.
func (s *Session) Resume(ctx context.Context, holds []HeldLock, claim Claim) (lost []Lost, err error) {
	err = s.of.inTurn(ctx, s.TTL(), len(holds), func() error {
		lost, err = s.resume(ctx, holds, claim)
		return err
	})
	return lost, err
}

func (s *Session) resume(ctx context.Context, holds []HeldLock, claim Claim) (lost []Lost, err error) {
	r := s.of
	coming := s.renewalLoadOf(holds)
	if err := s.use.Bring(coming); err != nil {
		return nil, err // the session is as it was, and may go on at another replica
	}
	defer func() { s.use.Give(limits.UseRenewalLoad, coming) }()
	arrival := r.comes(s.id)
	defer func() { s.came(arrival, err == nil) }()
	err = lock.Twice(func() error { return r.store.TakeSession(ctx, s.record, recordTTL(s.TTL())) })
	switch {
	case errors.Is(err, lock.ErrSessionGone), errors.Is(err, lock.ErrToken): // a stranger is not told which
		return nil, ErrSessionExpired
	case err != nil:
		return nil, err
	}
	r.tellMoved(s.record)
	s.settled = time.Now().Add(unsettled * r.cfg.AnswerTime)
	if before := r.Session(s.id); before != nil {
		before.End(ErrSuperseded)
	}
	found, lost, err := s.claimAll(ctx, holds, claim)
	if err != nil {
		return nil, err
	}
	s.EnterOp() // if the session ends now, it is over only when all is brought
	defer s.LeaveOp()
	if err := s.joinInstead(); err != nil {
		return nil, err
	}
	s.use.Give(limits.UseRenewalLoad, coming) // from here on each lease is counted
	coming = 0
	s.bring(found)
	r.log.Debug("session resumed", zap.String(observe.KeySession, s.id), zap.Uint64(observe.KeyEpoch, s.record.Epoch),
		zap.Int(observe.KeyCount, len(found)), zap.Int(observe.KeyLost, len(lost)))
	return lost, nil
}

// bring makes verified leases the session's own. If it ends meanwhile, late ones are released if the others are.
func (s *Session) bring(ls []Lease) {
	var late []Lease
	for _, l := range ls {
		if !l.Adopt() {
			late = append(late, l)
		}
	}
	if len(late) > 0 && !s.LeavesLeases() {
		s.EnterOp()
		s.of.goes(func() { s.freeLate(late) })
	}
}

// renewalLoadOf is what holds add to the renewal load of their client, beyond what the session causes here already.
func (s *Session) renewalLoadOf(holds []HeldLock) (all int) {
	for _, h := range holds {
		all += lock.Weight(h.Hold.Kind, h.Permits)
	}
	all *= limits.RenewalLoad(s.TTL())
	if before := s.of.Session(s.id); before != nil {
		all -= before.Info().Weight * limits.RenewalLoad(before.TTL())
	}
	return max(all, 0)
}

// joinInstead makes a session one of the registry, in place of an earlier attempt that may have come here meanwhile. If
// a later one has come, that has the session.
func (s *Session) joinInstead() error {
	for {
		before, err := s.join()
		switch {
		case err != nil:
			return err
		case before == nil:
			return nil
		case before.record.Epoch >= s.record.Epoch:
			return ErrSuperseded
		}
		before.End(ErrSuperseded)
	}
}

// claimAll claims holds, some at a time, which are found or lost. It stops when the store does not answer for one.
func (s *Session) claimAll(ctx context.Context, holds []HeldLock, claim Claim) (found []Lease, lost []Lost, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	leases, losses := make([]Lease, len(holds)), make([]Lost, len(holds))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(limits.VerifyingEach, len(holds)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(holds) && ctx.Err() == nil; i = next.Add(1) - 1 {
				err := s.of.resumes.verifying.Enter(ctx) // among the holds of all sessions that come
				if err != nil {
					return
				}
				leases[i], losses[i], err = claim(ctx, holds[i])
				s.of.resumes.verifying.Leave()
				if err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	for i, l := range leases {
		if l != nil {
			found = append(found, l)
		} else {
			lost = append(lost, losses[i])
		}
	}
	return found, lost, nil
}

// Returning is how many sessions are being resumed, or wait for that.
func (r *Registry) Returning() int { return int(r.resumes.returning.Load()) }
