package main

import (
	"context"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
)

// campaign keeps the lock of the term: whatever may be asked of a hold may be asked of a term.
func (d *driver) campaign(ctx context.Context, c *command) (fields, error) {
	if c.Wait != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ms(c.Wait))
		defer cancel()
	}
	return d.on(c, func(cl *client.Client) (fields, error) {
		who := election.Candidate{ID: c.Candidate, Annotation: c.Annotation}
		term, err := election.New(cl, c.Election).Campaign(ctx, who)
		if err != nil {
			return nil, err
		}
		d.keep(c.Term, term.Lock())
		return fields{"fence": term.Fence()}, nil
	})
}

// resign is the end of a term, as unlock is of its lock.
func (d *driver) resign(ctx context.Context, c *command) (fields, error) {
	l, err := d.hold(c.Term)
	if err != nil {
		return nil, err
	}
	return fields{}, l.Unlock(ctx)
}

// observe tells who leads until the client is closed.
func (d *driver) observe(_ context.Context, c *command) (fields, error) {
	return d.on(c, func(cl *client.Client) (fields, error) {
		go func() {
			for l, err := range election.New(cl, c.Election).Observe(context.Background()) {
				if err == nil {
					d.say(fields{
						"event": "leader", "observe": c.Observe, "name": l.ID, "annotation": l.Annotation, "fence": l.Fence,
					})
				}
			}
		}()
		return fields{}, nil
	})
}
