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
	trust  time.Duration // how long an observer believes at most, without asking again, that the leader still leads
}

// New makes the election with a name, which is the name of the lock that its leader holds. It asks the server nothing.
// The next leader is a candidate at the same replica if one waits there, else the first to ask.
func New(c *client.Client, name string) *Election {
	return &Election{client: c, name: name, kind: client.Exclusive, trust: 10 * time.Second}
}

// NewFair is New for an election whose candidates lead in the order in which they campaigned, over all replicas. While
// they wait the store is asked every 2 s. A majority of stores has no such locks. All candidates of an election have to
// use the same function.
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
	// candidates with the same ID do not lead together. It must be a little shorter than the server's limit for a holder,
	// 128 bytes by default, because a number is added.
	ID string
	// Annotation is for people who look at the lock, and for observers at the same replica.
	Annotation string
}

// Campaign waits until the candidate leads, or ctx ends. The end of ctx means nothing to the term.
//
// It outlives interruptions, and tries again after a pause while the server's store cannot be reached. It returns
// client.ErrCancelled when ctx ends, and errors that waiting does not end, such as client.ErrForbidden,
// client.ErrInvalid or client.ErrClosed. After an error nothing is left behind that outlives a lease.
//
// Each call is a candidate of its own, even with the same ID on the same Client, and waits for the others.
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

// passes says whether an error may pass by itself.
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
// learns of the loss by its first call.
func (t *Term) Err() error { return t.lock.Err() }

// Lock is the lock that makes the candidate the leader, for its other methods, as Deadline.
func (t *Term) Lock() *client.Lock { return t.lock }

// Resign ends the term before it asks the server; the next candidate leads at once. Stop the leader's work before. It
// may be called again, and then returns client.ErrNotHeld. It returns a *client.LostError if the term was lost before,
// and client.ErrOutcomeUnknown if no answer came: the term is over then, too, and another candidate leads when the
// lease has ended at the latest.
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

// Holder has a lock held under a candidate's ID, so that observers see it as Leader.ID. Campaign does that itself; this
// is for programs that take the lock of an election in another way. Each call makes a holder of its own: no two
// candidates share a lock, whatever their IDs.
func Holder(id string) client.LockOption {
	return client.Holder(id + mark + strconv.FormatUint(candidates.Add(1), 10))
}

// idOf is the ID in the owner <session>:<id>~<number>#<request> of a lock. It is the whole owner if that is not a
// candidate's.
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
