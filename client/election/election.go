package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/client"
)

// Pauses before something is tried again, at first and at most.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// Election is one election. It may be used by any number of candidates and observers, from any goroutine.
type Election struct {
	client *client.Client
	name   string
	kind   client.Kind
	trust  time.Duration // how long an observer believes at most that who leads still leads, without having asked again
}

// New is the election with a name, which is that of the lock that its leader holds. It asks the server nothing. Whoever
// leads next is one that waits at the same replica if there is one, and else whoever is first.
func New(c *client.Client, name string) *Election {
	return &Election{client: c, name: name, kind: client.Exclusive, trust: 10 * time.Second}
}

// NewFair is New for an election in which those lead first who campaigned first, over all replicas. The store is asked
// for their places every 2 s while they wait, and a majority of stores does not have such locks. All candidates of an
// election have to agree on that.
func NewFair(c *client.Client, name string) *Election {
	e := New(c, name)
	e.kind = client.Fair
	return e
}

// Name is the name of the election.
func (e *Election) Name() string { return e.name }

// Candidate is who stands for election.
type Candidate struct {
	// ID is what observers know the candidate by, at all replicas, such as its address. It need not be unique: two
	// candidates with one ID do not lead together. Of the server's limit for a holder, 128 bytes by default, it leaves
	// some for a number.
	ID string
	// Annotation is for people who look at the lock, and for observers at the same replica.
	Annotation string
}

// Campaign waits until the candidate leads, or ctx ends. The end of ctx has no meaning for the term.
//
// It outlives interruptions, and a server whose store cannot be reached: then it tries again after a pause. What it
// returns else is an error that waiting does not end, such as client.ErrForbidden, client.ErrInvalid or
// client.ErrClosed, or client.ErrCancelled when ctx ended. After an error nothing is left behind that outlives a lease.
//
// Each call is a candidate of its own, also with the same ID on the same Client, and waits for the others.
func (e *Election) Campaign(ctx context.Context, who Candidate) (*Term, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		l, err := e.client.Lock(ctx, e.name, client.As(e.kind), client.Annotation(who.Annotation), Holder(who.ID))
		switch {
		case err == nil:
			return &Term{lock: l, who: who}, nil
		case ctx.Err() != nil || !passes(err):
			return nil, fmt.Errorf("campaign: %w", err)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
		}
	}
}

// passes says whether an error is one of those that end by themselves.
func passes(err error) bool {
	return !errors.Is(err, client.ErrClosed) &&
		(errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) ||
			errors.Is(err, client.ErrStoreFull))
}

// Term is the time for which a candidate leads. It begins with Campaign and ends by Resign or by being lost, once and
// for good. All methods may be called at any time from any goroutine.
type Term struct {
	lock *client.Lock
	who  Candidate
}

// Candidate is who leads.
func (t *Term) Candidate() Candidate { return t.who }

// Fence is the number of the term: later terms of the election have greater ones. Give it to the resource with each
// access.
func (t *Term) Fence() uint64 { return t.lock.Fence() }

// Context ends when the term does. Its Cause is then a *client.LostError, or client.ErrUnlocked after Resign. It has
// the values of the context given to Campaign, but neither its end nor its deadline. Do the leader's work with it.
func (t *Term) Context() context.Context { return t.lock.Context() }

// Err is nil while the term lasts, and then what ended it. It reads the clock: a process that was stopped for too long
// learns of it by its first question.
func (t *Term) Err() error { return t.lock.Err() }

// Lock is the lock that makes the candidate the leader, for what else there is to ask, as its Deadline.
func (t *Term) Lock() *client.Lock { return t.lock }

// Resign ends the term, before the server is asked; the next candidate leads at once. Stop the leader's work before.
// It may be called again, and then returns client.ErrNotHeld. It returns a *client.LostError if the term was lost
// before, and client.ErrOutcomeUnknown if no answer came: the term is over then too, and another candidate leads when
// the lease has ended at the latest.
func (t *Term) Resign(ctx context.Context) error {
	if err := t.lock.Unlock(ctx); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	return nil
}

// candidates counts those of this process.
var candidates atomic.Uint64

// mark stands between a candidate's ID and the number that makes it a holder of its own.
const mark = "~"

// Holder has a lock held for a candidate, so that a Leader tells its ID wherever it is observed. Campaign does that
// itself; this is for who takes the lock of an election in another way. Each call makes a holder of its own: no two
// candidates share a lock, whatever their IDs.
func Holder(id string) client.LockOption {
	return client.Holder(id + mark + strconv.FormatUint(candidates.Add(1), 10))
}

// idOf is the ID of the candidate that holds a lock, as <session>:<id>~<number>#<request>. Of others that hold it, it
// is all that is known.
func idOf(heldBy string) string {
	_, holder, _ := strings.Cut(heldBy, ":")
	if end := strings.LastIndex(holder, "#"); end >= 0 {
		holder = holder[:end]
	}
	end := strings.LastIndex(holder, mark)
	if end < 0 {
		return heldBy
	}
	if _, err := strconv.ParseUint(holder[end+len(mark):], 10, 64); err != nil {
		return heldBy
	}
	return holder[:end]
}
