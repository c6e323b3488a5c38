package renew

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// dataset notes which data the store has, see layout.Data. Each probe looks, and whyGone; acquisitions and releases do
// not.
type dataset struct {
	mu    sync.Mutex // guards the fields below
	id    string     // the run id of the server and the id of its data
	since time.Time  // when they were first seen
}

// saw notes which data the store has.
func (d *dataset) saw(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.id != id {
		d.id, d.since = id, time.Now()
	}
}

// had says whether the store already had its present data when a hold was seen. In doubt it says no.
func (d *dataset) had(seen time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return seen.After(d.since)
}

// dataAnswer is what Redis answered when it was asked for the id of its data.
type dataAnswer struct {
	id  string
	err error
}

func (s *Renewer) askData(ctx context.Context) dataAnswer {
	get := redis.NewCmd(ctx, "get", s.DataKey())
	if err := s.Steady.Probe(ctx, get); err != nil {
		return dataAnswer{err: err}
	}
	id, err := get.Text()
	return dataAnswer{id, err}
}

// checkData notes which data the server has, and gives them an id if they have none. If the key cannot be used, the run
// id alone stands for the data.
func (s *Renewer) checkData(ctx context.Context, runID string, data dataAnswer) error {
	if errors.Is(data.err, redis.Nil) {
		ctx = context.WithoutCancel(ctx)
		data.id = rand.Text()
		data.err = s.Steady.Probe(ctx, redis.NewCmd(ctx, "set", s.DataKey(), data.id, "NX"))
		if errors.Is(data.err, redis.Nil) {
			data = s.askData(ctx) // another replica was quicker
		}
	}
	// An error reply, such as NOPERM or OOM, does not mean that the server is away.
	if _, replied := errors.AsType[redis.Error](data.err); data.err != nil && !replied {
		return data.err
	}
	if data.err != nil {
		data.id = ""
	}
	s.data.saw(runID + " " + data.id)
	return nil
}

// whyGone changes the answers answerGone: to answerDataLost if the hold was lost with the data, to answerUnsure if that
// cannot be found out.
func (s *Renewer) whyGone(ctx context.Context, rs renewals, answers []int64) {
	asked := false
	var err error
	for k, i := range rs.chunk {
		if k >= len(answers) || answers[k] != answerGone || rs.all[i].Seen.IsZero() {
			continue
		}
		if !asked {
			asked = true
			_, err = s.Probe(ctx)
		}
		switch {
		case err != nil:
			answers[k] = answerUnsure
		case !s.data.had(rs.all[i].Seen):
			answers[k] = answerDataLost
		}
	}
}
