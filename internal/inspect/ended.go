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
	// Ended says that nobody goes on with it. If not, a replica that did not answer may have it.
	Ended bool
	// Released says that the replica that had it has released its holds, or is about to. If not, its leases end by
	// themselves.
	Released bool
	Asking
}

// EndSession ends a session wherever it is. If no replica has it, because it moves to another one or its client is
// away, EndSession ends its record in the store, so that no replica takes it any more. Then it asks the replicas once
// more, as one may have taken it just before. A replica that has it and does not answer ends it when it prolongs the
// record. After an error nothing is known; a repetition is harmless.
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

// endThere asks all replicas to end a session, and adds their answers to e.
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

// end ends a session of this replica, for a question of any replica.
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
