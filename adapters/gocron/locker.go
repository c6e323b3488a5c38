package lockdcron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/lockd-io/lockd/client"
)

// Locker has each run of a job done by one of several schedulers. It is a gocron.Locker, for
// gocron.WithDistributedLocker and gocron.WithDistributedJobLocker.
type Locker struct {
	client *client.Client
	prefix string
	splay  time.Duration

	mu   sync.Mutex // guards the field below
	runs map[string]*client.Lock
}

// NewLocker makes a Locker that locks the prefix and the name of a job, as "cron/nightly". Give each job a name, with
// gocron.WithName.
//
// splay is how long a lock stays taken at least, even if the job is done sooner. It must be as long as the clocks of
// the schedulers may differ, and shorter than the time between two runs. A scheduler that comes to the same run later
// than that does it again.
func NewLocker(c *client.Client, prefix string, splay time.Duration) *Locker {
	return &Locker{client: c, prefix: prefix, splay: splay, runs: map[string]*client.Lock{}}
}

// Lock takes the lock of a run if it is free. It does not wait: when another scheduler was first the error is a
// *client.HeldError, and gocron skips the run. While lockd cannot be reached no job runs: the error is
// client.ErrUnavailable, or client.ErrOutcomeUnknown. gocron.AfterLockError tells of errors.
//
// The lock is renewed while the job runs.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	begun := time.Now()
	held, err := l.client.TryLock(ctx, l.prefix+key)
	if err != nil {
		return nil, fmt.Errorf("job %q: %w", key, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[key] = held
	return &run{locker: l, key: key, held: held, begun: begun}, nil
}

// Held is the lock of a job that runs in this process, or nil if it does not run. From it a job gets the fence, and a
// context that ends when the lock is lost: gocron itself does not tell a job of a loss.
func (l *Locker) Held(key string) *client.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[key]
}

// run is a run of a job. It is a gocron.Lock.
type run struct {
	locker *Locker
	key    string
	held   *client.Lock
	begun  time.Time
}

// Unlock releases the lock. If the splay is not over yet, the rest of it becomes a lease that ends by itself; Unlock
// waits only for a rest that is less than the shortest lease. The end of ctx does not count, as gocron's context may
// have ended: Unlock waits for an answer for the time of client.WithAnswerTimeout. After client.ErrOutcomeUnknown the
// name may stay taken for a lease.
func (r *run) Unlock(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	r.locker.over(r)
	left := time.Until(r.begun.Add(r.locker.splay))
	if left > 0 {
		err := r.held.Shorten(ctx, left)
		if !errors.Is(err, client.ErrInvalid) {
			return err
		}
		time.Sleep(left) // less than the shortest lease
	}
	return r.held.Unlock(ctx)
}

// over forgets a run, unless the next one of the same job has begun.
func (l *Locker) over(r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[r.key] == r.held {
		delete(l.runs, r.key)
	}
}
