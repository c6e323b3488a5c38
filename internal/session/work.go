package session

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
)

// priceOf is the price of an answer that may have been given without the store; 0 for others, because the store shares
// out its calls itself.
func priceOf(e Event) time.Duration {
	switch e := e.(type) {
	case Failed, NotGranted, Queued, Done:
		return limits.Refusal
	case HeartbeatAck:
		return limits.Sign
	case HoldList:
		return limits.Refusal + time.Duration(len(e.Locks))*time.Microsecond
	}
	return 0
}

// Spend counts work that the session caused and the store does not share out.
func (s *Session) Spend(price time.Duration) { s.work.Add(int64(price)) }

// Owes is for how long nothing more should be read from the session, because of what it spent. It is less than its
// client may be silent, however much others of its tenant spent, unless very many sessions of its tenant are as busy.
func (s *Session) Owes() time.Duration {
	if s.work.Load() < int64(limits.SettleAt) {
		return 0
	}
	return s.settleWork()
}

func (s *Session) settleWork() time.Duration {
	return s.of.cfg.Tenants.SpendFor(s.Client().Tenant, time.Duration(s.work.Swap(0)), s.TTL()/4)
}
