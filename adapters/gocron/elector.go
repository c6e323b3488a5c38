package lockdcron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
)

// ErrNotLeader says that another scheduler runs the jobs, or none does at the moment.
var ErrNotLeader = errors.New("this scheduler does not lead")

// refusedPause is how long an Elector waits before it campaigns again after an error, such as a missing right.
const refusedPause = 5 * time.Second

// Elector has one of several schedulers run all jobs. It is a gocron.Elector, for gocron.WithDistributedElector.
type Elector struct {
	election *election.Election
	who      election.Candidate
	cancel   context.CancelFunc
	ended    chan struct{} // closed when campaign has ended

	mu   sync.Mutex // guards the fields below
	term *election.Term
	err  error // of the last campaign
}

// NewElector campaigns in the background, again after each loss, until Close.
func NewElector(e *election.Election, who election.Candidate) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	el := &Elector{election: e, who: who, cancel: cancel, ended: make(chan struct{})}
	go el.campaign(ctx)
	return el
}

// IsLeader returns nil while this scheduler leads. It does not ask the server: the term knows until when it lasts.
// Otherwise it returns ErrNotLeader, joined with what ended the term or keeps it from beginning, if that is known.
//
// gocron asks before each run. A job that runs when the term ends is not stopped; it may use the context of Term.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	term, err := e.term, e.err
	e.mu.Unlock()
	if term != nil {
		err = term.Err()
		if err == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return ErrNotLeader
}

// Term is the present term, or the last one, with its context and fence. It is nil before the first one.
func (e *Elector) Term() *election.Term {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.term
}

// Close resigns, and campaigns no more. Shut the scheduler down before, so that no job runs any more. It may be called
// again. It returns Resign's error, but none if the term had ended; the term is over in any case.
func (e *Elector) Close(ctx context.Context) error {
	e.cancel()
	<-e.ended
	term := e.Term()
	if term == nil {
		return nil
	}
	if err := term.Resign(ctx); err != nil && !errors.Is(err, client.ErrLost) && !errors.Is(err, client.ErrNotHeld) {
		return err
	}
	return nil
}

func (e *Elector) campaign(ctx context.Context) {
	defer close(e.ended)
	for ctx.Err() == nil {
		term, err := e.election.Campaign(ctx, e.who)
		over, pause := ctx.Done(), refusedPause
		e.mu.Lock()
		e.err = err
		if err == nil {
			e.term = term
		}
		e.mu.Unlock()
		switch {
		case errors.Is(err, client.ErrClosed):
			return
		case err == nil:
			select {
			case <-term.Context().Done():
			case <-over:
			}
		default:
			select {
			case <-time.After(pause):
			case <-over:
			}
		}
	}
}
