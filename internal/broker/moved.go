package broker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// A replica that takes a session tells all others. One that still serves the session then asks the store whose it is,
// and leaves it, instead of finding that out at the next sign of life. Nothing depends on the message: whose the
// session is the store says.

const (
	// movedTopic is where it is told.
	movedTopic = "moved"
	// movedTime bounds telling it.
	movedTime = time.Second
)

// moved says that a session is somewhere else from this epoch on.
type moved struct {
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
}

// tellMoved tells the others that a session is here now.
func (b *Broker) tellMoved(r lock.SessionRecord) {
	if !b.moves.TryEnter() {
		return
	}
	b.wg.Go(func() {
		defer b.moves.Leave()
		message, err := json.Marshal(moved{r.ID, r.Epoch})
		if err == nil {
			ctx, cancel := context.WithTimeoutCause(b.ctx, movedTime, errors.New("telling that a session moved took too long"))
			defer cancel()
			_, err = b.store.Publish(ctx, movedTopic, message)
		}
		if err != nil {
			b.log.Debug("the other replicas were not told that a session moved", zap.String(observe.KeySession, r.ID),
				zap.Error(err))
		}
	})
}

// heardMoved has the store asked whose a session is that may be somewhere else.
func (b *Broker) heardMoved(message []byte) {
	var m moved
	if err := json.Unmarshal(message, &m); err != nil {
		return // somebody else's message
	}
	if s := b.session(m.Session); s != nil && s.record.Epoch < m.Epoch {
		s.ifStillHere(time.Now().Add(s.TTL()), func() {})
	}
}
