package broker

import (
	"errors"
	"math"
	"strconv"

	"github.com/lockd-io/lockd/internal/lock"
)

// What a session asks the store without holding or waiting for anything. Each question is one store call. A few
// goroutines of the session ask them, so that neither the stream's reader nor other requests wait for the store.

const (
	// maxAskers is how many questions of a session are under way at a time.
	maxAskers = 4
	// maxQuestions is how many questions of a session may wait for their turn.
	maxQuestions = 256
)

// askLocked has a question asked, or says that there are too many.
func (s *Session) askLocked(question func()) error {
	if len(s.asks) >= maxQuestions {
		return s.b.metrics.denied("questions", maxQuestions)
	}
	s.asks = append(s.asks, question)
	if s.askers < maxAskers {
		s.askers++
		s.ops++
		s.b.wg.Go(s.askAll)
	}
	return nil
}

// askAll asks until there is nothing left to ask. A session that ended gets no further answers.
func (s *Session) askAll() {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(s.asks) > 0 && !s.ended {
		question := s.asks[0]
		s.asks = s.asks[1:]
		b.mu.Unlock()
		question()
		b.mu.Lock()
	}
	if s.askers--; s.askers == 0 {
		s.asks = nil
	}
	s.ops--
	s.finishLocked()
}

// answer tells a session the outcome of a question.
func (s *Session) answer(id uint64, e Event, err error) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if err != nil {
		e = Failed{ID: id, Err: err}
	}
	s.emitLocked(e)
}

// Look asks what is known of a name. The answer is Looked or Failed.
func (s *Session) Look(id uint64, name string) {
	s.ask(id, checkName(name, s.b.cfg.Limits.NameBytes), func() {
		info, err := s.b.Lock(s.b.ctx, name)
		s.answer(id, Looked{ID: id, Lock: info}, err)
	})
}

// LimitRequest asks for a limit of a semaphore.
type LimitRequest struct {
	Name  string
	Limit uint32
}

// SetLimit sets how many permits a semaphore has. The answer is LimitSet or Failed. Repeating it is harmless.
func (s *Session) SetLimit(id uint64, req LimitRequest) {
	s.ask(id, s.b.checkLimit(req), func() {
		previous, err := s.b.setLimit(req)
		s.answer(id, LimitSet{ID: id, Previous: previous}, err)
	})
}

// ask begins a question, or answers why it cannot be asked.
func (s *Session) ask(id uint64, err error, question func()) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if admit := s.admitLocked(id); admit != nil {
		err = admit
	}
	if err == nil {
		err = s.askLocked(question)
	}
	if err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
	}
}

// SetLimit sets how many permits a semaphore has and returns how many it had, 0 if there was no limit. It is repeated if
// the store does not answer; what it returns may then be the new limit.
func (b *Broker) SetLimit(req LimitRequest) (previous uint32, err error) {
	if err := b.checkLimit(req); err != nil {
		return 0, err
	}
	return b.setLimit(req)
}

func (b *Broker) setLimit(req LimitRequest) (previous uint32, err error) {
	for range 2 {
		previous, err = b.store.SetLimit(b.ctx, req.Name, req.Limit)
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			break
		}
	}
	return previous, err
}

func (b *Broker) checkLimit(req LimitRequest) error {
	if err := checkName(req.Name, b.cfg.Limits.NameBytes); err != nil {
		return err
	}
	if req.Limit == 0 || req.Limit > maxLimit {
		return &lock.InvalidError{
			Field: "limit", Reason: lock.ReasonPermits, Detail: "must be between 1 and " + strconv.Itoa(math.MaxInt32),
		}
	}
	return nil
}
