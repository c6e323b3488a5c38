package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func isError(got, want error) bool { return errors.Is(got, want) }

func TestHeartbeatTellsTheSmallestValidityOfAutoLeases(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		c.Heartbeat(0, 1)
		if ack := one[session.HeartbeatAck](c); ack.SentID != 1 || !ack.Until.IsZero() {
			t.Errorf("got %+v, want no validity without leases", ack)
		}
		c.acquire(request.Acquire{Name: "fixed", Lease: new(time.Second / 2)})
		one[session.Granted](c)
		g := c.take("a")
		time.Sleep(time.Second / 10)
		c.take("b")
		c.Heartbeat(0, 2)
		if ack := one[session.HeartbeatAck](c); !ack.Until.Equal(g.Validity.Until) {
			t.Errorf("got %v, want the older lease's %v", ack.Until, g.Validity.Until)
		}
	})
}

func TestRequestIDsCannotBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		c.Acquire(5, request.Acquire{Name: "job", Kind: lock.Exclusive})
		one[session.Granted](c)
		c.Acquire(5, request.Acquire{Name: "other", Kind: lock.Exclusive})
		c.failed(session.ErrRepeated)
		c.Acquire(3, request.Acquire{Name: "third", Kind: lock.Exclusive})
		one[session.Granted](c)
		c.Acquire(0, request.Acquire{Name: "fourth", Kind: lock.Exclusive})
		c.failed(lock.ErrInvalid)
	})
}
