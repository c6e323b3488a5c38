package broker_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func (w *world) once(req request.Once) (broker.OnceLease, *session.NotGranted, error) {
	w.t.Helper()
	req.Kind = lock.Exclusive
	if req.Lease == 0 {
		req.Lease = time.Minute
	}
	return w.b.AcquireOnce(w.t.Context(), req)
}

func (w *world) mustOnce(req request.Once) broker.OnceLease {
	w.t.Helper()
	l, refused, err := w.once(req)
	if err != nil || refused != nil {
		w.t.Fatalf("got %v, %v, want a lease", refused, err)
	}
	return l
}

func TestUnaryLeaseIDStaysSecret(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.mustOnce(request.Once{Name: "job"})
		if st := w.look("job"); strings.Contains(string(st.Owner), l.LeaseID) {
			t.Errorf("the lease id %q stands in the owner %q", l.LeaseID, st.Owner)
		}
		_, refused, _ := w.once(request.Once{Name: "job"})
		if refused == nil || !errors.Is(refused.Cause, lock.ErrHeld) || strings.Contains(string(refused.HeldBy), l.LeaseID) {
			t.Errorf("got %+v, want held, without the lease id", refused)
		}
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "job", Kind: lock.Exclusive, LeaseID: strings.Repeat("x", 26),
		}); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("release with another id: got %v", err)
		}
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "job", Kind: lock.Exclusive, LeaseID: "short",
		}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("release with a bad id: got %v", err)
		}
	})
}

const ownID = "a1_-a1_-a1_-a1_-a1_-a1_-"

// A grant whose time is over when it is answered is none. What its caller cannot ask for again is given back.
func TestUnaryGrantWhoseTimeIsOverIsNotTold(t *testing.T) {
	for _, own := range []bool{false, true} {
		inWorld(t, func(w *world) {
			req := request.Once{Name: "job", Kind: lock.Exclusive, Lease: time.Minute, LeaseID: ownID}
			w.mustOnce(req)
			if err := w.b.AnswerLate(req, own); !errors.Is(err, errUnknown) {
				t.Errorf("its own id: %v: got %v, want an unknown outcome", own, err)
			}
			time.Sleep(time.Second)
			if held := w.look("job").Held; held != own {
				t.Errorf("its own id: %v: the lock is held: %v", own, held)
			}
		})
	}
}
