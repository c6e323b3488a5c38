package lockdlease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
)

// What Create and Update fail with, besides the errors of package client.
var (
	// ErrMustStop: the term was lost, and its elector has not stopped yet. It may not lead again before that: the work
	// that it started would not notice that another one may have led meanwhile.
	ErrMustStop = errors.New("the term was lost: the elector has to stop first")
	// ErrLate: the answer came so late that too little of the lease is left.
	ErrLate = errors.New("the answer came too late to rely on the lease")
	// ErrDuration: a LeaseDuration counts in whole seconds, and has to be one at least.
	ErrDuration = errors.New("LeaseDuration must be 1 s or more")
)

// Lock is a resourcelock.Interface, for the Lock of leaderelection.LeaderElectionConfig and for
// LeaderElectionResourceLockInterface of controller-runtime. It is for one elector at a time. Its methods may be called
// from any goroutine.
type Lock struct {
	client   *client.Client
	election *election.Election
	identity string

	mu      sync.Mutex // guards the fields below; is not held while the server is asked
	held    *client.Lock
	record  resourcelock.LeaderElectionRecord // of held
	stopped bool                              // the elector said that it leads no more; set resets this
}

var _ resourcelock.Interface = (*Lock)(nil)

// New makes the lock with a name for an elector. identity must not be empty, and no other elector may have the same. It
// asks the server nothing.
func New(c *client.Client, name, identity string) *Lock {
	return &Lock{client: c, election: election.New(c, name), identity: identity}
}

// Identity is what other electors know this one by.
func (l *Lock) Identity() string { return l.identity }

// Describe names the lock in what the elector logs.
func (l *Lock) Describe() string { return "lockd/" + l.election.Name() }

// Term is the lock in lockd while this elector leads, and after a loss until the elector has stopped; else nil. It has
// the fence, and a context that ends when the term does.
func (l *Lock) Term() *client.Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped && l.held != nil && l.held.Err() != nil {
		l.held = nil
	}
	return l.held
}

// Leading makes an OnStartedLeading callback that calls start with the term, and with a context that ends with the
// elector's context or with the term. The elector's context alone may end up to a RenewDeadline after the term: when
// the term was lost by force, or while the process was stopped. If the term is over already start is not called.
func (l *Lock) Leading(start func(ctx context.Context, term *client.Lock)) func(context.Context) {
	return func(ctx context.Context) {
		term := l.Term()
		if term == nil {
			return
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		of := term.Context()
		defer context.AfterFunc(of, func() { cancel(context.Cause(of)) })()
		if of.Err() == nil {
			start(ctx, term)
		}
	}
}

// Get tells who leads. HolderIdentity is empty when nobody does; there is a record all the same. A record of another
// leader only says that it leads at this moment: its times are those of the answer. Get returns client.ErrUnavailable
// if the server cannot be reached.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, err := l.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(record)
	if err != nil {
		return nil, nil, err
	}
	return &record, raw, nil
}

func (l *Lock) get(ctx context.Context) (resourcelock.LeaderElectionRecord, error) {
	l.mu.Lock()
	held, record := l.held, l.record
	l.mu.Unlock()
	if held != nil && held.Err() == nil {
		return record, nil
	}
	leader, err := l.election.Leader(ctx)
	if err != nil || leader.Vacant() {
		return resourcelock.LeaderElectionRecord{}, err
	}
	if leader.ID == l.identity { // a term of ours that was lost here, or an earlier process
		leader.ID = leader.HeldBy
	}
	now := metav1.Now()
	return resourcelock.LeaderElectionRecord{
		HolderIdentity: leader.ID, LeaseDurationSeconds: 1 + int(leader.TTL/time.Second), AcquireTime: now, RenewTime: now,
	}, nil
}

// Create takes the lock, as Update does.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update does what the elector wants of the lock by writing a record: it takes the lock if this elector does not hold
// it, with a lease of LeaseDuration; prolongs the lease if it does; and releases it if HolderIdentity is empty.
//
// When it has taken or prolonged the lock, nobody else leads for nine tenths of LeaseDuration from its return on. It
// returns client.ErrHeld if another elector leads, and client.ErrLost or ErrMustStop if the term was lost. It returns
// ErrLate, client.ErrUnavailable or client.ErrOutcomeUnknown if the server did not answer in time: do not rely on a
// longer lease then. A lock that is taken too late is released. It may be repeated.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	held, lease := l.Term(), time.Duration(record.LeaseDurationSeconds)*time.Second
	var err error
	switch {
	case record.HolderIdentity == "":
		err = l.release(ctx, held)
	case lease <= 0:
		err = ErrDuration
	case held == nil:
		held, err = l.take(ctx, lease)
	case held.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrMustStop, held.Err())
	default:
		err = held.Extend(ctx, lease)
		if err == nil {
			err = inTime(held, lease)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.Describe(), err)
	}
	if record.HolderIdentity != "" {
		l.set(held, record)
	}
	return nil
}

func (l *Lock) take(ctx context.Context, lease time.Duration) (*client.Lock, error) {
	held, err := l.client.TryLock(ctx, l.election.Name(), client.Lease(lease), election.Holder(l.identity))
	if err != nil {
		return nil, err
	}
	if err := inTime(held, lease); err != nil {
		return nil, errors.Join(err, held.Unlock(context.WithoutCancel(ctx)))
	}
	return held, nil
}

// inTime says whether enough is left of a lease that was just taken or prolonged.
func inTime(held *client.Lock, lease time.Duration) error {
	if left := held.ValidFor(); left < lease*9/10 {
		return fmt.Errorf("%w: %v of %v are left", ErrLate, left, lease)
	}
	return nil
}

// release releases the lock. A lock that was lost is no error.
func (l *Lock) release(ctx context.Context, held *client.Lock) error {
	l.set(nil, resourcelock.LeaderElectionRecord{})
	if held == nil {
		return nil
	}
	if err := held.Unlock(ctx); err != nil && !errors.Is(err, client.ErrLost) && !errors.Is(err, client.ErrNotHeld) {
		return err
	}
	return nil
}

func (l *Lock) set(held *client.Lock, record resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.record, l.stopped = held, record, false
}

// began is the event of an elector that begins to lead. It records any other event when it has stopped.
const began = "became leader"

// RecordEvent is called by the elector, also when it has stopped: only then may it lead again after a loss. Events are
// not recorded anywhere; the callbacks of the elector tell the same.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = event != began
}
