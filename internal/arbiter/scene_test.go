package arbiter

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// scene is two queues and their caller: it does what they say, and notes each decision.
type scene struct {
	now   time.Time
	asked func(r *request)              // is called with each one that is asked for
	of    map[string]*driven            // by name
	ws    map[string]*request           // by name
	fatal func(format string, a ...any) // for what the script got wrong
	said  []string
}

// driven is a queue with its driver, which does one thing at a time.
type driven struct {
	Queue[request]
	running bool
	woken   bool
	doing   *request // asked for
	keeping []*Waiter[request]
	until   time.Time // it sleeps
}

// request is a waiter and what its caller knows.
type request struct {
	Waiter[request]
	name  string
	q     *driven
	begun Begun
	holds bool
	freed Freed // when it releases
}

func newScene() *scene {
	s := &scene{
		now: time.Unix(1000, 0), asked: func(*request) {}, of: map[string]*driven{"job": {}, "other": {}},
		ws: map[string]*request{},
	}
	for name, q := range s.of {
		q.Init(name)
	}
	return s
}

func (s *scene) say(format string, a ...any) { s.said = append(s.said, fmt.Sprintf(format, a...)) }

// drive does what a queue asks for, as far as no answer is missing.
func (s *scene) drive(q *driven) {
	if q.running {
		q.woken = q.Changed() || q.woken
		if q.woken && q.doing == nil && q.keeping == nil && !q.until.IsZero() {
			q.woken = false
			s.next(q)
		}
		return
	}
	switch t := q.Start(s.now); t.Do {
	case Stop:
	case Ask:
		s.ask(t.Ask.For)
	default:
		q.running = true
		q.Changed()
		s.next(q)
	}
}

func (s *scene) next(q *driven) {
	q.until = time.Time{}
	switch t := q.Next(s.now); t.Do {
	case Stop:
		q.running = false
	case Ask:
		q.doing = t.Ask.For
		s.ask(q.doing)
	case Keep:
		q.keeping = t.Keep
		s.say("keep %s", strings.Join(owners(q.Enlist(t.Keep)), " "))
	case Yield:
		s.say("yield %v", t.Pause)
		q.until = s.now.Add(t.Pause)
	case Rest, Sleep:
		if q.woken {
			q.woken = false
			s.next(q)
			return
		}
		text := map[Do]string{Rest: "rest", Sleep: "sleep"}[t.Do] + " " + t.Pause.String()
		if len(t.Next) > 0 {
			text += " for " + strings.Join(owners(t.Next), " ")
		}
		s.say("%s", text)
		q.until = s.now.Add(t.Pause)
	}
}

func owners(os []lock.Owner) (names []string) {
	for _, o := range os {
		names = append(names, string(o))
	}
	return names
}

func (s *scene) ask(r *request) {
	s.asked(r)
	r.begun = r.q.Begun()
	r.Ask(time.Minute)
	s.say("ask %s", r.name)
}

// pass has time pass, and drivers wake up.
func (s *scene) pass(d time.Duration) {
	for end := s.now.Add(d); ; {
		next := end
		for _, q := range s.of {
			if !q.until.IsZero() && q.until.Before(next) {
				next = q.until
			}
		}
		s.now = next
		for _, name := range []string{"job", "other"} {
			if q := s.of[name]; !q.until.IsZero() && !q.until.After(s.now) {
				s.next(q)
			}
		}
		if !next.Before(end) {
			return
		}
	}
}

// arrive is as the broker has it: a try that would wait does not come in, unless it follows others.
func (s *scene) arrive(r *request) {
	q := r.q
	r.For, r.Since, r.Claim.Owner = r, s.now, lock.Owner(r.name)
	busy := q.InTheWay(&r.Waiter)
	follows := busy && q.Follow(&r.Waiter, s.now)
	if busy && r.Try() && !follows {
		r.answered = true
		s.say("refuse %s: held", r.name)
		return
	}
	s.ws[r.name] = r
	q.Arrive(&r.Waiter)
	if follows {
		s.say("%s follows", r.name)
	} else if busy {
		q.Place(&r.Waiter, s.now)
		s.park(r, q.Ahead(&r.Waiter))
	} else if q.OvertakesNow(&r.Waiter) {
		s.ask(r)
		return
	}
	s.drive(q)
}

func (s *scene) park(r *request, position int) {
	r.q.Park(&r.Waiter)
	if r.Tells(position) {
		s.say("%s waits at %d", r.name, position)
	}
}

// answered tells a queue what the store said for a request.
func (s *scene) answered(r *request, err error) {
	q := r.q
	if !r.Asking() {
		s.fatal("the store is not asked for %s", r.name)
	}
	byDriver := q.doing == r
	switch a := q.StoreAnswered(&r.Waiter, r.begun, err, s.now); a.Verdict {
	case Nothing:
		s.say("%s was gone", r.name)
	case Grant:
		s.say("grant %s", r.name)
		s.granted(r)
		if r.Claim.Kind.Shared() {
			for _, w := range q.AlsoAsk(r.begun, 2) {
				s.ask(w.For)
			}
		}
	case Wait:
		s.park(r, a.Position)
		s.refuseEach(q.Overruled(&r.Waiter, r.begun))
	case Elsewhere:
		to := s.of[a.Held.Name]
		s.say("%s moves to %s", r.name, a.Held.Name)
		r.q = to
		q.Move(&r.Waiter, &to.Queue, r.Claim)
		s.drive(to)
	case Again:
		s.say("%s again", r.name)
	case RefuseLate:
		s.refuse(r, "late")
	case RefuseHeld:
		s.refuse(r, "held")
	case RefuseFailed:
		s.refuse(r, "failed")
	}
	if byDriver {
		q.doing = nil
		s.next(q)
		return
	}
	q.NoteChange()
	s.drive(q)
}

func (s *scene) refuse(r *request, why string) {
	s.say("refuse %s: %s", r.name, why)
	s.leave(r)
}

func (s *scene) refuseEach(ws []*Waiter[request]) {
	for _, w := range ws {
		s.refuse(w.For, "held")
	}
}

func (s *scene) leave(r *request) {
	if r.q.Leave(&r.Waiter) {
		s.say("give up the place of %s", r.name)
	}
}

// granted has a request leave and hold the name.
func (s *scene) granted(r *request) {
	r.Granted()
	r.q.Leave(&r.Waiter)
	r.holds = true
	s.count(r.q)
	s.refuseEach(r.q.Shut())
}

// count tells a queue who holds its name here.
func (s *scene) count(q *driven) {
	alone, sharers := false, 0
	for _, r := range s.ws {
		switch {
		case r.q != q || !r.holds:
		case r.Claim.Kind.Shared():
			sharers++
		default:
			alone = true
		}
	}
	q.Held(alone, sharers)
}

const burst = 2

// release releases a hold: next is to have it, if that is not nil.
func (s *scene) release(r *request) (next *request) {
	q := r.q
	r.freed = Freed{Burst: burst, Begun: q.Begun()}
	if w := q.Successor(r.Claim.Kind, burst); w != nil {
		q.HandOver(w)
		s.say("hand over to %s", w.For.name)
		return w.For
	}
	s.say("free")
	return nil
}

// released is the answer to that. The name was handed to next, or it is free.
func (s *scene) released(r, next *request, handed bool) {
	r.holds = false
	s.count(r.q)
	if next != nil {
		next.Ended()
		switch {
		case !handed:
		case next.Answered():
			s.say("%s was gone", next.name)
		default:
			r.q.HandedOver()
			s.say("grant %s", next.name)
			s.granted(next)
		}
	}
	if !handed {
		r.q.Freed(r.freed, s.now)
	}
	s.drive(r.q)
}

// enlisted is the answer of the store to a call that keeps places.
func (s *scene) enlisted(q *driven, positions []string, failed bool) {
	var err error
	if failed {
		err = lock.ErrUnavailable
		q.NotEnlisted(s.now)
		positions = make([]string, len(q.keeping))
	}
	for i, w := range q.keeping {
		position, _ := strconv.Atoi(positions[i])
		tell, leave := q.Enlisted(w, position, err)
		if leave {
			s.say("give up the place of %s", w.For.name)
		}
		if tell >= 0 {
			s.park(w.For, tell)
		}
	}
	q.keeping = nil
	s.next(q)
}
