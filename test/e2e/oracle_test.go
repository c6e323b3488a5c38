package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

// ledger is a resource that needs a lock: a file that is read, changed and written back. It has the number of changes
// and the fence of the last one. What it finds wrong are faults.
type ledger struct {
	path string

	mu     sync.Mutex // guards the field below
	faults []string
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{path: filepath.Join(t.TempDir(), "ledger")}
	if err := os.WriteFile(l.path, []byte("0 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// enter makes one change.
func (l *ledger) enter(fence uint64) {
	n, last, err := l.read()
	if err != nil {
		l.fault("read: %v", err)
		return
	}
	if fence <= last {
		l.fault("fence %d after %d", fence, last)
	}
	if err := os.WriteFile(l.path, fmt.Appendf(nil, "%d %d", n+1, fence), 0o600); err != nil {
		l.fault("write: %v", err)
	}
}

func (l *ledger) read() (n int, last uint64, err error) {
	text, err := os.ReadFile(l.path)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d %d", &n, &last)
	}
	return n, last, err
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// verdict is nil if there was no fault and each of so many changes is there.
func (l *ledger) verdict(want int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, _, err := l.read()
	if err != nil {
		return err
	}
	if n != want {
		l.faults = append(l.faults, fmt.Sprintf("%d changes are left of %d", n, want))
	}
	if len(l.faults) == 0 {
		return nil
	}
	return fmt.Errorf("%d faults, the first: %s", len(l.faults), l.faults[0])
}

// locker is what the workers of a ledger use; the real one is the SDK.
type locker func(ctx context.Context) (fence uint64, unlock func() error, err error)

func lockerOf(c *client.Client, name string) locker {
	return func(ctx context.Context) (uint64, func() error, error) {
		l, err := c.Lock(ctx, name)
		if err != nil {
			return 0, nil, err
		}
		return l.Fence(), func() error { return l.Unlock(ctx) }, nil
	}
}

// work has each locker make an equal share of the changes.
func (l *ledger) work(t *testing.T, changes int, lockers ...locker) {
	t.Helper()
	var wg sync.WaitGroup
	for _, lock := range lockers {
		wg.Go(func() {
			for range changes / len(lockers) {
				fence, unlock, err := lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				l.enter(fence)
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A checker that cannot fail proves nothing.
func TestLedgerCatchesALockThatDoesNotLock(t *testing.T) {
	var fence atomic.Uint64
	broken := func(context.Context) (uint64, func() error, error) {
		return fence.Add(1), func() error { return nil }, nil
	}
	l := newLedger(t)
	l.work(t, 2000, broken, broken, broken, broken)
	if err := l.verdict(2000); err == nil {
		t.Error("nothing was noticed")
	}
}

// A lock that excludes but repeats a fence is caught, too.
func TestLedgerCatchesFencesThatDoNotRise(t *testing.T) {
	d, _ := oneReplica(t)
	l := newLedger(t)
	good := lockerOf(d.Dial(t), "job")
	l.work(t, 10, func(ctx context.Context) (uint64, func() error, error) {
		fence, unlock, err := good(ctx)
		return fence / 1e9, unlock, err
	})
	if err := l.verdict(10); err == nil {
		t.Error("nothing was noticed")
	}
}

// room is a place for one at a time. Unlike a ledger it excuses who was told that its lock is lost.
type room struct {
	inside atomic.Pointer[client.Lock]
	last   atomic.Uint64
	visits atomic.Int64

	mu     sync.Mutex // guards the field below
	faults []error
}

func (r *room) visit(l *client.Lock) {
	if before := r.last.Swap(l.Fence()); before >= l.Fence() && l.Err() == nil {
		r.fault(fmt.Errorf("fence %d after %d", l.Fence(), before))
	}
	other := r.inside.Swap(l)
	if other != nil && other.Err() == nil && l.Err() == nil {
		r.fault(fmt.Errorf("two holders: fences %d and %d", other.Fence(), l.Fence()))
	}
	time.Sleep(200 * time.Microsecond)
	r.inside.CompareAndSwap(l, nil)
	r.visits.Add(1)
}

func (r *room) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

func (r *room) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.faults...)
}

func TestRoomCatchesALockThatDoesNotLock(t *testing.T) {
	d, _ := oneReplica(t)
	c := d.Dial(t)
	r := new(room)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			l, err := c.Lock(t.Context(), fmt.Sprint("not the same name ", i))
			if err != nil {
				t.Error(err)
				return
			}
			for range 100 {
				r.visit(l)
			}
		})
	}
	wg.Wait()
	if r.verdict() == nil {
		t.Error("nothing was noticed")
	}
}
