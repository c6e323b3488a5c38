package limits

import (
	"context"
	"sync"
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
	of map[lock.Tenant]*shared
}

type shared struct {
	Quota
	users int // guarded by quotas.mu
}

// enter is Quota.Enter. Call leave if there is no error.
func (q *quotas) enter(ctx context.Context, t lock.Tenant, patience time.Duration) (leave func(), err error) {
	if q.most == 0 {
		return func() {}, nil
	}
	room := q.use(t)
	if err := room.Enter(ctx, patience); err != nil {
		q.drop(t, room)
		return nil, err
	}
	return func() { room.Leave(); q.drop(t, room) }, nil
}

func (q *quotas) use(t lock.Tenant) *shared {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.of[t]
	if room == nil {
		room = &shared{Quota: NewQuota(q.subject, q.most, q.denied)}
		if q.of == nil {
			q.of = make(map[lock.Tenant]*shared)
		}
		q.of[t] = room
	}
	room.users++
	return room
}

func (q *quotas) drop(t lock.Tenant, room *shared) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if room.users--; room.users == 0 {
		delete(q.of, t)
	}
}
