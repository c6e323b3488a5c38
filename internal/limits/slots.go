package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Slots are for so many of one thing at a time.
type Slots chan struct{} // has a value for each of them

// Enter waits for a free slot until ctx is over. Call Leave if it returns nil.
func (s Slots) Enter(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryEnter is Enter for those who do not wait. It says whether there was one.
func (s Slots) TryEnter() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave frees a slot.
func (s Slots) Leave() { <-s }

// Quota is Slots for which nobody waits longer than it has patience.
type Quota struct {
	Slots
	subject string
	denied  Denied
}

// NewQuota makes a Quota. Who finds no slot is denied, with this subject.
func NewQuota(subject string, most int, denied Denied) Quota {
	return Quota{make(Slots, most), subject, denied}
}

// Enter waits for a free slot until its patience or ctx is over. Without patience it waits for nothing. Call Leave if
// it returns nil.
func (q Quota) Enter(ctx context.Context, patience time.Duration) error {
	if q.TryEnter() {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := q.Slots.Enter(patient)
	if err != nil && ctx.Err() == nil {
		return q.denied(q.subject, cap(q.Slots))
	}
	return err
}

// quotas are a Quota for each tenant that has something inside, or waits for it. Without a bound there is none.
type quotas struct {
	subject string
	most    int
	denied  Denied

	mu sync.Mutex // guards the field below
	of Table[shared]
}

type shared struct {
	Quota
	users atomic.Int64
}

func newQuotas(subject string, most int, denied Denied) *quotas {
	unused := func(_ lock.Tenant, s *shared) bool { return s.users.Load() == 0 }
	return &quotas{subject: subject, most: most, denied: denied, of: NewTable(unused)}
}

// enter is Quota.Enter. Call leave if there is no error.
func (q *quotas) enter(ctx context.Context, t lock.Tenant, patience time.Duration) (leave func(), err error) {
	if q.most == 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	quota := q.of.Of(t)
	if quota.Slots == nil {
		quota.Quota = NewQuota(q.subject, q.most, q.denied)
	}
	quota.users.Add(1) // before it could be forgotten
	q.mu.Unlock()
	if err := quota.Enter(ctx, patience); err != nil {
		quota.users.Add(-1)
		return nil, err
	}
	return func() { quota.Leave(); quota.users.Add(-1) }, nil
}
