package session

import "context"

// An operator ends a session wherever it is, also while it comes here: a session that is being resumed is one of the
// registry only once its holds are verified.

// Ended is what became of a session that was to end here.
type Ended struct {
	Session *Session // nil if there was none
	Was     Info     // what it was like
	// Sure says that the store knows of the end, so that nobody goes on with the session, and that what it held is being
	// released. If it is not sure the session may be elsewhere, or the store does not answer.
	Sure bool
}

// arrival is a session that is being resumed, perhaps by several attempts.
type arrival struct {
	attempts int
	forced   *Forced       // nil: it is not to end
	over     chan struct{} // closed when no attempt is under way
	ended    Ended         // of one that came, and ended
}

// EndForced ends a session because an operator wants that, and releases what it holds. It waits until the store has
// said whether nobody goes on with it, or until ctx ends. What is still under way then goes on.
func (r *Registry) EndForced(ctx context.Context, id string, f Forced) (e Ended) {
	r.mu.Lock()
	here, _ := r.open.Get(at{id: id})
	coming := r.coming[id]
	if coming != nil {
		coming.forced = &f
	}
	r.mu.Unlock()
	if here.session != nil {
		e = here.session.endForced(f)
		e.await(ctx)
	}
	if e.Sure || coming == nil {
		return e
	}
	select {
	case <-coming.over:
	case <-ctx.Done():
		return e
	}
	if coming.ended.Session != nil {
		e = coming.ended
		e.await(ctx)
	}
	return e
}

func (s *Session) endForced(f Forced) Ended {
	e := Ended{Session: s, Was: s.Info()}
	s.end(&EndedError{f}, true)
	return e
}

// await waits until what the session held is released, or is left to the background, or ctx ends.
func (e *Ended) await(ctx context.Context) {
	select {
	case <-e.Session.Done():
	case <-ctx.Done():
	}
	e.Session.mu.Lock()
	defer e.Session.mu.Unlock()
	e.Sure = e.Session.over
}

// comes notes an attempt to resume a session, before the store is asked for it. The attempt calls came at its end.
func (r *Registry) comes(id string) *arrival {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.coming[id]
	if a == nil {
		a = &arrival{over: make(chan struct{})}
		r.coming[id] = a
	}
	a.attempts++
	return a
}

// came is the end of an attempt. A session that is here now ends if an operator wanted that meanwhile.
func (s *Session) came(a *arrival, here bool) {
	r := s.of
	r.mu.Lock()
	forced := a.forced
	r.mu.Unlock()
	var e Ended
	if here && forced != nil {
		e = s.endForced(*forced)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Session != nil {
		a.ended = e
	}
	if a.attempts--; a.attempts == 0 {
		delete(r.coming, s.id)
		close(a.over)
	}
}
