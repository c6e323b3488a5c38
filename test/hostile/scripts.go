package hostile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// A Look at verdict is answered with what a script noticed, in the annotation. A Look at leave asks the session to
// leave.
const verdict, leave = "verdict", "leave"

// script is a server that behaves as a lockd may, and notes what the client says to it.
type script struct {
	mu      sync.Mutex // guards the fields below
	noticed []string
	streams []*stream // that were to be opened
	opened  time.Time // the last one
	asked   *stream   // for a lock
	// part is shown each request but those about the verdict. It says whether it has dealt with it.
	part func(p *script, s *stream, r *lockdv1.SessionRequest) bool
}

// ServeScripts starts servers that play parts, and returns their addresses by what they do.
func ServeScripts(ctx context.Context) (addresses map[string]string, stop func(), err error) {
	parks := &script{part: parksPart}
	return serve(ctx, map[string]wrong{
		"breaks while it is asked": (&script{part: breaksPart}).wrong,
		"grants for a moment":      (&script{part: momentPart}).wrong,
		"hears nothing for a time": (&script{part: stillPart}).wrong,
		"is to be left":            parks.wrong,
		"refuses who would go on": func(s *stream, r *lockdv1.SessionRequest) bool {
			parks.mu.Lock()
			defer parks.mu.Unlock()
			return r.GetOpen() != nil && parks.refuse(s)
		},
	})
}

func (p *script) wrong(s *stream, r *lockdv1.SessionRequest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.GetOpen() != nil {
		p.streams, p.opened = append(p.streams, s), time.Now()
	}
	if r.GetLook().GetName() == verdict {
		return s.send(r.GetRequestId(), &lockdv1.Looked{Lock: &lockdv1.LockState{
			Name: verdict, Annotation: strings.Join(p.noticed, "; "),
		}})
	}
	return p.part(p, s, r)
}

// notice notes something for the verdict, and says false.
func (p *script) notice(format string, args ...any) bool {
	p.noticed = append(p.noticed, fmt.Sprintf(format, args...))
	return false
}

// first says whether a stream is the first one.
func (p *script) first(s *stream) bool { return s == p.streams[0] }

// opens answers Open with times, and resumes all that is named.
func opens(s *stream, r *lockdv1.SessionRequest, ttl, interval time.Duration) bool {
	o := &lockdv1.Opened{
		SessionId: "s", ResumeToken: "t", SessionTtl: durationpb.New(ttl), HeartbeatInterval: durationpb.New(interval),
		Limits: &lockdv1.Limits{NameBytes: 512},
	}
	for _, h := range r.GetOpen().GetResume().GetHolds() {
		h.Validity = valid()
		o.Resumed = append(o.Resumed, h)
	}
	return s.send(r.GetRequestId(), o)
}

// breaksPart grants a lock, and then answers nothing until its stream breaks. In the next stream it notes what it is
// asked.
func breaksPart(p *script, s *stream, r *lockdv1.SessionRequest) bool {
	a, first := r.GetAcquire(), p.first(s)
	switch {
	case r.GetOpen() != nil:
		return opens(s, r, time.Minute, time.Second)
	case first && a.GetName() == "held" || r.GetHeartbeat() != nil:
		return false
	case first && a != nil:
		p.noticed = append(p.noticed, fmt.Sprint(r.GetRequestId()))
		return true
	case first:
		return r.GetLook() == nil || s.end()
	case a != nil:
		former := p.noticed[0]
		if got := fmt.Sprint(a.GetInsteadOf()); got != "["+former+"]" {
			return p.notice("%s is asked for in place of %s, not of %s", a.GetName(), got, former)
		}
		return p.notice("%s is asked for in place of its former request", a.GetName())
	case r.GetRelease() != nil:
		return p.notice("%s is released", r.GetRelease().GetName())
	}
	return false
}

// moment is how long a grant of momentPart is valid.
const moment = 200 * time.Millisecond

// momentPart grants locks that it seems never to renew, and notes what is released.
func momentPart(p *script, s *stream, r *lockdv1.SessionRequest) bool {
	switch {
	case r.GetOpen() != nil:
		return opens(s, r, time.Minute, time.Second)
	case r.GetAcquire() != nil:
		g := s.grant(r.GetAcquire())
		g.Validity = &lockdv1.Validity{Remaining: durationpb.New(moment), AnchorAge: durationpb.New(time.Since(p.opened))}
		return s.send(r.GetRequestId(), g)
	case r.GetRelease() != nil:
		return p.notice("%s is released", r.GetRelease().GetName())
	}
	return r.GetHeartbeat() != nil
}

// stillPart has a short session TTL, and notes whether it is asked for all locks in one stream.
func stillPart(p *script, s *stream, r *lockdv1.SessionRequest) bool {
	switch {
	case r.GetOpen() != nil && r.GetOpen().GetResume() == nil:
		return opens(s, r, time.Second, 300*time.Millisecond)
	case r.GetOpen() != nil:
		return s.send(0, &lockdv1.Closing{Failure: &lockdv1.Failure{Code: 5, Reason: "SESSION_EXPIRED"}})
	case r.GetAcquire() != nil:
		if p.asked != nil {
			p.notice("%s is asked for in the same stream: %v", r.GetAcquire().GetName(), s == p.asked)
		}
		p.asked = s
	}
	return false
}

const (
	// parked is how many messages are said while a session looks for another stream, and large is the size of each.
	parked, large = 400, 1 << 16
	// taken is how many of them a client may take meanwhile, with what the network has room for. It is more than a client
	// takes at a time: who does not go on after them hears nothing any more.
	taken = 150
)

// parksPart makes its session look for another stream, and refuses it there.
func parksPart(p *script, s *stream, r *lockdv1.SessionRequest) bool {
	if r.GetOpen().GetResume() != nil {
		return p.refuse(s)
	}
	return r.GetLook().GetName() == leave && s.send(0, &lockdv1.Draining{}) &&
		s.send(r.GetRequestId(), &lockdv1.Looked{Lock: &lockdv1.LockState{Name: leave}})
}

// refuse refuses a session that would go on. The first time it sends much to the session's old stream before.
func (p *script) refuse(s *stream) bool {
	if len(p.noticed) == 0 && len(p.streams) > 0 {
		was, said := p.streams[0], atomic.Int64{}
		go func() {
			for was.send(0, &lockdv1.Unlocked{Name: strings.Repeat("n", large)}) && said.Add(1) < parked {
			}
		}()
		time.Sleep(300 * time.Millisecond) // so that the client takes as much as it ever does
		if n := said.Load(); n > taken {
			p.notice("%d messages were taken meanwhile", n)
		}
	}
	p.notice("refused")
	s.send(0, &lockdv1.Closing{Failure: &lockdv1.Failure{Code: 14, Reason: "BACKEND_UNAVAILABLE"}})
	return s.end()
}
