package limits

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Room is for so many of one thing at a time.
type Room struct {
	subject string
	denied  Denied
	inside  chan struct{} // has a value for each of them
}

// NewRoom makes a Room. Who finds none is denied, with this subject.
func NewRoom(subject string, most int, denied Denied) Room {
	return Room{subject, denied, make(chan struct{}, most)}
}

// Patient is how long to wait for room that comes for sure.
const Patient = time.Duration(math.MaxInt64)

// Enter waits for room until its patience or ctx is over. Call Leave if it returns nil.
func (r Room) Enter(ctx context.Context, patience time.Duration) error {
	select {
	case r.inside <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r.inside <- struct{}{}:
		return nil
	case <-late.C:
		return r.denied(r.subject, cap(r.inside))
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryEnter is Enter without patience, and says whether there was room.
func (r Room) TryEnter() bool {
	select {
	case r.inside <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave makes room for another one.
func (r Room) Leave() { <-r.inside }

// rooms are a Room for each tenant that has something inside, or waits for it. Without a bound there is none.
type rooms struct {
	subject string
	most    int
	denied  Denied

	mu sync.Mutex // guards the field below
	of map[lock.Tenant]*shared
}

type shared struct {
	Room
	users int // guarded by rooms.mu
}

// enter is Room.Enter. Call leave if there is no error.
func (r *rooms) enter(ctx context.Context, t lock.Tenant, patience time.Duration) (leave func(), err error) {
	if r.most == 0 {
		return func() {}, nil
	}
	room := r.use(t)
	if err := room.Enter(ctx, patience); err != nil {
		r.drop(t, room)
		return nil, err
	}
	return func() { room.Leave(); r.drop(t, room) }, nil
}

func (r *rooms) use(t lock.Tenant) *shared {
	r.mu.Lock()
	defer r.mu.Unlock()
	room := r.of[t]
	if room == nil {
		room = &shared{Room: NewRoom(r.subject, r.most, r.denied)}
		if r.of == nil {
			r.of = make(map[lock.Tenant]*shared)
		}
		r.of[t] = room
	}
	room.users++
	return room
}

func (r *rooms) drop(t lock.Tenant, room *shared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if room.users--; room.users == 0 {
		delete(r.of, t)
	}
}
