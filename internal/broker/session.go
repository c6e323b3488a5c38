package broker

import (
	"context"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Session is a session that can ask for names.
type Session struct {
	*session.Session
	b    *Broker
	told *history.Client
}

// Open begins a session.
func (b *Broker) Open(req session.OpenRequest) (*Session, error) {
	if err := b.rules.Open(&req); err != nil {
		return nil, err
	}
	s := &Session{b.sessions.New(req, newID(), session.NewToken(), 1, 0), b, toldOf(req.Client)}
	if err := s.Session.Open(); err != nil {
		return nil, err
	}
	return s, nil
}

// Resume goes on with a session, and with those of its holds that are still there. It says which are lost. See
// session.Session.Resume.
func (b *Broker) Resume(ctx context.Context, req session.ResumeRequest) (s *Session, lost []session.Lost, err error) {
	defer func() { b.metrics.resumed(err) }()
	if err := b.rules.Resume(&req); err != nil {
		return nil, nil, err
	}
	s = &Session{
		b.sessions.New(req.OpenRequest, req.ID, req.Token, req.Epoch, req.LastRequest), b, toldOf(req.Client),
	}
	lost, err = s.Session.Resume(ctx, req.Holds, s.claim)
	if err != nil {
		return nil, nil, err
	}
	return s, lost, nil
}

// Requests carries out what came with a sign of life, in its order.
func (s *Session) Requests(all []request.Request) {
	for i := range all {
		switch r := &all[i]; r.Verb {
		case request.VerbAcquire:
			s.Acquire(r.ID, r.Acquire)
		case request.VerbRelease:
			s.ReleasePermits(r.ID, r.Release)
		case request.VerbExtend:
			s.Extend(r.ID, r.Extend)
		case request.VerbRefuse:
			s.Refuse(r.ID, r.Err)
		}
	}
}
