package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// priceOf is what an answer is counted for that may have been given without the store. What the store was asked for it
// shares out itself.
func priceOf(e session.Event) time.Duration {
	switch e := e.(type) {
	case session.Failed, session.NotGranted, session.Queued, session.Done:
		return limits.Refusal
	case session.HeartbeatAck:
		return limits.Sign
	case session.HoldList:
		return limits.Refusal + time.Duration(len(e.Locks))*time.Microsecond
	}
	return 0
}

// Spend counts work that the session caused and the store does not share out.
func (s *Session) Spend(price time.Duration) { s.work.Add(int64(price)) }

// Owes is for how long nothing more should be read of the session for what it spent. It is less than its client may be
// silent, however much others of its tenant spent, unless very many sessions of its tenant are as busy.
func (s *Session) Owes() time.Duration {
	if s.work.Load() < int64(limits.SettleAt) {
		return 0
	}
	return s.settleWork()
}

func (s *Session) settleWork() time.Duration {
	return s.b.tenants.SpendFor(s.Client().Tenant, time.Duration(s.work.Swap(0)), s.TTL()/4)
}

// names notes the names of a request.
func (s *Session) names(req request.Acquire) error {
	t, tenants := s.Client().Tenant, s.b.tenants
	err := tenants.Name(t, req.Name)
	for i := 0; i < len(req.More) && err == nil; i++ {
		err = tenants.Name(t, req.More[i].Name)
	}
	return err
}
