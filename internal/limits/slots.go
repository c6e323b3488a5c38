package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Slots bound how many of one thing there are at a time, by the capacity of the channel.
type Slots chan struct{} // has a value for each that is taken

// Enter waits for a free slot until ctx is over. Call Leave if it returns nil.
func (s Slots) Enter(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryEnter is Enter without waiting. It says whether a slot was free.
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

// Quota is Slots for which each caller waits as long as its patience at most.
type Quota struct {
	Slots
	subject string
	denied  Denied
}

// NewQuota makes a Quota of most slots. Whoever finds none gets the error of denied for this subject.
func NewQuota(subject string, most int, denied Denied) Quota {
	return Quota{make(Slots, most), subject, denied}
}

// Enter waits for a free slot until patience or ctx is over; with a patience of 0 it does not wait. Call Leave if it
// returns nil.
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

// quotas has a Quota for each tenant that has a slot or waits for one. If most is 0 there is no bound.
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
