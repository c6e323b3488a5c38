package arbiter

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// clashing is a queue whose head is refused again and again.
type clashing struct {
	*testing.T
	Queue[request]
	head request
	now  time.Time
}

func newClashing(t *testing.T) *clashing {
	c := &clashing{T: t, now: time.Unix(1000, 0)}
	c.Init("job")
	c.head.For, c.head.Wait, c.head.Since = &c.head, Forever, c.now
	c.Arrive(&c.head.Waiter)
	return c
}

// refused makes an attempt that is refused so, and during which a release is heard or not, and returns for how long the
// head waits then.
func (c *clashing) refused(held lock.HeldError, heard bool) time.Duration {
	c.Helper()
	c.tryAt = time.Time{}
	begun := c.Begun()
	c.head.Begin()
	if heard {
		c.Heard(lock.Notice{What: lock.NoticeReleased}, c.now)
	}
	if a := c.StoreAnswered(&c.head.Waiter, begun, &held, c.now); a.Verdict != Wait {
		c.Errorf("got %+v", a)
	}
	return c.waits()
}

// waits is for how long the head waits, 0 if it is to be asked for.
func (c *clashing) waits() time.Duration {
	if t := c.Next(c.now); t.Do != Ask {
		return t.Pause
	}
	return 0
}

func (c *clashing) hears() time.Duration {
	c.Heard(lock.Notice{What: lock.NoticeReleased}, c.now)
	return c.waits()
}

func (c *clashing) wants(what string, got, want time.Duration) {
	c.Helper()
	if got != want {
		c.Errorf("%s: waits %v, want %v", what, got, want)
	}
}

const ms = time.Millisecond

// Those who clash do not all ask at the moment when they hear of a release, and wait for longer with each clash.
func TestWhoClashesAsksApart(t *testing.T) {
	c := newClashing(t)
	clash := lock.HeldError{RetryAfter: 9 * ms, Clash: true, Apart: 4 * ms}
	c.wants("first clash", c.refused(clash, false), 10*ms)
	c.wants("a release is heard", c.hears(), 4*ms)
	c.now = c.now.Add(ms)
	c.wants("another one, of the same clash", c.hears(), 3*ms)
	c.wants("second clash", c.refused(clash, false), 20*ms)
	c.wants("a release is heard", c.hears(), 8*ms)
	c.wants("third clash, and a release was heard meanwhile", c.refused(clash, true), 16*ms)
	for range 30 {
		c.refused(clash, false)
	}
	c.wants("many", c.refused(clash, false), pollInterval)
	c.wants("a release is heard", c.hears(), 64*ms)

	held := lock.HeldError{RetryAfter: time.Second}
	c.wants("somebody has it", c.refused(held, false), time.Second+ms)
	c.wants("and releases it", c.hears(), 0)
	held.Apart = 4 * ms
	c.wants("somebody has it, while members are silent", c.refused(held, false), time.Second+ms)
	c.wants("and releases it", c.hears(), 4*ms)
	c.refused(held, false)
	c.wants("after some without a clash", c.hears(), 0)
}

// Who never clashed asks at once, and so does whoever is asked by what happens here.
func TestWhoDoesNotClashAsksAtOnce(t *testing.T) {
	c := newClashing(t)
	held := lock.HeldError{RetryAfter: time.Second, Apart: 4 * ms}
	c.refused(held, false)
	c.wants("a release is heard", c.hears(), 0)
	c.wants("while it is asked for", c.refused(held, true), 0)
	c.refused(lock.HeldError{RetryAfter: 9 * ms, Clash: true, Apart: 4 * ms}, false)
	c.Freed(Freed{Burst: 32}, c.now)
	c.wants("it is freed here", c.waits(), 0)
}
