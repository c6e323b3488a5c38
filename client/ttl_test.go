package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// ofTTL returns the Client that c has for a TTL.
func ofTTL(t *testing.T, c *client.Client, ttl time.Duration) *client.Client {
	t.Helper()
	other, err := c.WithTTL(ttl)
	harness.Must(t, err)
	return other
}

// TestRealTTLOfItsOwn has a lock that outlives the last sign of life for a second, in a program whose others do for a
// minute.
func TestRealTTLOfItsOwn(t *testing.T) {
	t.Parallel()
	c := dial(t, addr, client.WithSessionTTL(time.Minute))
	short := ofTTL(t, c, 2*time.Second)
	long, soon := mustLock(t, c, "ttl/long"), mustLock(t, short, "ttl/soon")
	if d := long.ValidFor(); d < 30*time.Second {
		t.Errorf("the lock of the minute is sure for %v", d)
	}
	if d := soon.ValidFor(); d > 2*time.Second {
		t.Errorf("the lock of 2 s is sure for %v", d)
	}
	_, err := short.TryLock(t.Context(), "ttl/long")
	wantError(t, err, client.ErrHeld)
	harness.Must(t, c.Close())
	other := dial(t, addr)
	mustLock(t, other, "ttl/soon")
	atOnce, cancel := context.WithTimeout(t.Context(), 20*time.Second) // else it would be held for the minute
	defer cancel()
	_, err = other.Lock(atOnce, "ttl/long")
	harness.Must(t, err)
	_, err = short.TryLock(t.Context(), "ttl/more")
	wantError(t, err, client.ErrClosed)
}

func TestRealTTLThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	c := dial(t, addr)
	_, err := c.WithTTL(-time.Second)
	wantError(t, err, client.ErrInvalid)
	_, err = ofTTL(t, c, time.Millisecond).TryLock(t.Context(), "ttl/short")
	wantError(t, err, client.ErrInvalid)
}

// TestClientsOfATTLAreOne asks twice for the same TTL, closes what it got, and asks once more.
func TestClientsOfATTLAreOne(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		first := ofTTL(t, c, time.Minute)
		if ofTTL(t, c, time.Minute) != first || ofTTL(t, c, time.Hour) == first {
			t.Error("a Client is not made once for each TTL")
		}
		harness.Must(t, first.Close())
		mustLock(t, ofTTL(t, c, time.Minute), "job")
		harness.Must(t, c.Close())
		_, err := c.WithTTL(time.Minute)
		wantError(t, err, client.ErrClosed)
	})
}

// TestStatusOfAllTTLsIsToldOneAtATime fails if two Clients call the function at the same time.
func TestStatusOfAllTTLsIsToldOneAtATime(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		var inside atomic.Int32
		ttls := make(chan time.Duration, 2)
		c := f.dial(t, client.WithOnStatus(func(st client.Status) {
			if inside.Add(1) > 1 {
				t.Error("it is called while it runs")
			}
			time.Sleep(time.Second)
			inside.Add(-1)
			ttls <- st.TTL
		}))
		mustLock(t, ofTTL(t, c, time.Minute), "job")
		mustLock(t, c, "other")
		synctest.Wait()
		if sum := <-ttls + <-ttls; sum != time.Minute {
			t.Errorf("told of TTLs that are %v together, want 1m0s and 0", sum)
		}
	})
}
