package session

import (
	"encoding/json"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// A replica that takes a session tells all others. One that still serves the session then asks the store whose it is,
// and leaves it, instead of finding that out at the next sign of life. Nothing depends on the message: the store says
// whose the session is.

// movedTopic is the topic of these messages.
const movedTopic = "moved"

// moved says that a session is somewhere else from this epoch on.
type moved struct {
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
}

// tellMoved tells the others that a session is here now.
func (r *Registry) tellMoved(record lock.SessionRecord) {
	if !r.moves.TryEnter() {
		return
	}
	r.goes(func() {
		defer r.moves.Leave()
		message, err := json.Marshal(moved{record.ID, record.Epoch})
		if err == nil {
			_, err = r.store.Publish(r.ctx, movedTopic, message)
		}
		if err != nil {
			r.log.Debug("the other replicas were not told that a session moved", zap.String(observe.KeySession, record.ID),
				zap.Error(err))
		}
	})
}

// heardMoved has the store asked whose a session is that may be somewhere else.
func (r *Registry) heardMoved(message []byte) {
	var m moved
	if err := json.Unmarshal(message, &m); err != nil {
		return // somebody else's message
	}
	if s := r.Session(m.Session); s != nil && s.record.Epoch < m.Epoch {
		s.IfStillHere(func() {})
	}
}
