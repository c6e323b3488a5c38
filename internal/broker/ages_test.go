package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// TestAgesGoOnElsewhere fails if the ages of a session, of its holds or of its requests begin anew at another replica,
// or if the annotation of a hold is lost there.
func TestAgesGoOnElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.alive()
		hold := holder.take("busy").Hold
		c, other := w.leaving(), w.replica()
		mine := c.takeAs(request.Acquire{Name: "job", Annotation: "nightly"}).Hold
		waits := c.queue("busy")
		c.Detach(errCut)
		req := c.resumption(2, claims(true, mine))
		req.Age, req.Holds[0].Age, req.Holds[0].Annotation = 3*time.Hour, 2*time.Hour, "nightly"
		back, _ := other.resume(req)
		back.queueAs(request.Acquire{Name: "busy", InsteadOf: []uint64{waits}, Waited: time.Hour})
		// a younger one in front of it must not hide it
		time.Sleep(time.Second)

		if all := other.b.Sessions("", 10); len(all) != 1 || all[0].Age != 3*time.Hour+time.Second {
			t.Errorf("sessions: got %+v, want one of three hours", all)
		}
		in := other.inspect("job")
		if h := in.Holders[0]; h.Age != 2*time.Hour+time.Second || h.Annotation != "nightly" {
			t.Errorf("holder: got %+v, want it two hours old with its annotation", h)
		}
		if l := other.b.Leases("", "", 10)[0].Holder; l.Age != 2*time.Hour+time.Second || l.Annotation != "nightly" {
			t.Errorf("lease: got %+v, want it two hours old with its annotation", l)
		}
		if in := other.inspect("busy"); in.Waiters[0].Age != time.Hour+time.Second {
			t.Errorf("waiter: got %+v, want it an hour old", in.Waiters[0])
		}
		if s := other.metric("lockd_oldest_waiter_seconds"); s != 3601 {
			t.Errorf("the oldest waiter waits for %v s, want 3601", s)
		}
		holder.release(hold)
		back.release(one[session.Granted](back).Hold)
		if s := other.metric("lockd_oldest_waiter_seconds"); s != 0 {
			t.Errorf("the oldest waiter waits for %v s, want none", s)
		}
		back.release(mine)
		w.free("job")
	})
}

// TestWhatIsSaidOfThePastIsBounded has clients say what cannot be, and that a bounded wait does not depend on it.
func TestWhatIsSaidOfThePastIsBounded(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	inWorld(t, func(w *world) {
		c := w.leaving()
		mine := c.take("job").Hold
		c.Detach(errCut)
		bad := c.resumption(2, claims(true, mine))
		for field, spoil := range map[string]func(){
			"resume.age":                 func() { bad.Age = -1 },
			"resume.holds[0].age":        func() { bad.Holds[0].Age = -1 },
			"resume.holds[0].annotation": func() { bad.Holds[0].Annotation = "\xff" },
		} {
			bad.Age, bad.Holds = 0, claims(true, mine)
			spoil()
			_, _, err := w.b.Resume(t.Context(), bad)
			if invalid, ok := errors.AsType[*lock.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("got %v, want that it names %s", err, field)
			}
		}
		req := c.resumption(2, claims(true, mine))
		req.Age, req.Holds[0].Age = century, century
		back, _ := w.resume(req)
		if s, l := w.b.Sessions("", 1)[0], w.b.Leases("", "", 1)[0].Holder; s.Age > century/10 || l.Age > century/10 {
			t.Errorf("a session of %v has a hold of %v", s.Age, l.Age)
		}
		back.acquire(request.Acquire{Name: "other", Waited: -1})
		back.failed(lock.ErrInvalid)
		back.queueAs(request.Acquire{Name: "job", Wait: new(time.Minute), Waited: century})
		time.Sleep(10 * time.Second)
		back.Hear()
		back.none() // its wait counts from now
		if s := w.metric("lockd_oldest_waiter_seconds"); s > century.Seconds()/10 {
			t.Errorf("the oldest waiter waits for %v s", s)
		}
	})
}
