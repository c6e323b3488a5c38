package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Room is for so many of one thing at a time.
type Room chan struct{} // has a value for each of them

// Enter waits for room until ctx is over. Call Leave if it returns nil.
func (r Room) Enter(ctx context.Context) error {
	select {
	case r <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryEnter is Enter for those who do not wait. It says whether there was room.
func (r Room) TryEnter() bool {
	select {
	case r <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave makes room for another one.
func (r Room) Leave() { <-r }

// Quota is a Room for those who wait for a bounded time.
type Quota struct {
	Room
	subject string
	denied  Denied
}

// NewQuota makes a Quota. Who finds no room is denied, with this subject.
func NewQuota(subject string, most int, denied Denied) Quota {
	return Quota{make(Room, most), subject, denied}
}

// Enter waits for room until its patience or ctx is over. Without patience it waits for nothing. Call Leave if it
// returns nil.
func (q Quota) Enter(ctx context.Context, patience time.Duration) error {
	if q.TryEnter() {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := q.Room.Enter(patient)
	if err != nil && ctx.Err() == nil {
		return q.denied(q.subject, cap(q.Room))
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
	room := q.of.Of(t)
	if room.Room == nil {
		room.Quota = NewQuota(q.subject, q.most, q.denied)
	}
	room.users.Add(1) // before it could be forgotten
	q.mu.Unlock()
	if err := room.Enter(ctx, patience); err != nil {
		room.users.Add(-1)
		return nil, err
	}
	return func() { room.Leave(); room.users.Add(-1) }, nil
}
