package inspect

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Ended is what became of a session that was to end.
type Ended struct {
	// Was is the session as it was, nil if no replica that answered had it.
	Was *Session
	// Ended says that nobody goes on with it. If it has not, a replica that did not answer may have it.
	Ended bool
	// Released says that the replica that had it releases what it held, or has. What else it held runs out by itself.
	Released bool
	Asking
}

// EndSession ends a session wherever it is. A session may also be on its way from one replica to another, or wait for
// its client at none: then its record is ended in the store, so that nobody takes it any more, and replicas are asked
// once more, as one of them may have taken it just before. One that does not answer, and has it, ends it when it
// prolongs the record. An error says that nothing is known; repeating it is harmless.
func (d *Inspector) EndSession(ctx context.Context, id string, f session.Forced) (e Ended, err error) {
	if err = d.endThere(ctx, id, f, &e); err != nil || e.Ended {
		return e, err
	}
	recorded, err := d.Store.ForceEndSession(ctx, id)
	switch {
	case err != nil && e.Was != nil: // its replica goes on with the end
		return e, fmt.Errorf("end the record of the session: %w: %w", lock.ErrOutcomeUnknown, err)
	case err != nil:
		return e, fmt.Errorf("end the record of the session: %w", err)
	}
	if err = d.endThere(ctx, id, f, &e); err != nil || e.Ended {
		return e, err
	}
	if e.Unasked != "" {
		return e, fmt.Errorf("ask who has the session: %w", lock.ErrOutcomeUnknown)
	}
	e.Ended = (recorded || e.Was != nil) && e.Answered >= e.Asked
	return e, nil
}

// endThere has the replicas end a session that they have.
func (d *Inspector) endThere(ctx context.Context, id string, f session.Forced, e *Ended) error {
	answers, asking, err := d.ask(ctx, Question{About: AboutEnding, After: id, Forced: &f})
	e.Asking = asking
	for _, k := range answers {
		if len(k.Sessions) > 0 && (e.Was == nil || k.Ended) {
			e.Was = &k.Sessions[0]
		}
		e.Ended = e.Ended || k.Ended
	}
	e.Released = e.Ended
	return err
}

// end ends a session that another replica, or this one, was asked to end.
func (d *Inspector) end(q Question) (k Knowledge) {
	if q.Forced == nil {
		return k
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	was, sure := d.Local.End(ctx, q.After, *q.Forced)
	if was != nil {
		was.Replica = d.Replica
		k.Sessions, k.Ended = []Session{*was}, sure
	}
	return k
}
