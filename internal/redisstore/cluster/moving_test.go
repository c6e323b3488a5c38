package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

// moving are holds of names in one slot while that moves. Each has a key beside those of its name, which may be at the
// other node.
type moving struct {
	*testing.T
	s, hasty             *Store // which does not repeat for long what is refused
	read, write, permits lock.Renewal
}

const (
	readName    = "{x}read"
	writeName   = "{x}write"
	permitsName = "{x}permits"
)

func (m *moving) all() []lock.Renewal { return []lock.Renewal{m.read, m.write, m.permits} }

func sharing(k lock.Kind, name string, o lock.Owner) lock.Claim {
	c := claim(name, o)
	c.Kind = k
	switch k {
	case lock.Write:
		c.Place = ttl
	case lock.Semaphore:
		c.Permits, c.Limit = 1, 1
	default:
	}
	return c
}

func (m *moving) take(c lock.Claim) lock.Renewal {
	m.Helper()
	begun := time.Now()
	g, err := lock.Await(m.Context(), m.s.StartAcquire, c)
	must(m, err)
	return lock.Renewal{
		Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: g.Fence, TTL: ttl, Permits: c.Permits, Seen: begun,
	}
}

// waits has a writer ask for the name that is read. It keeps new readers away then.
func (m *moving) waits(s *Store) (lock.Grant, error) {
	return lock.Await(m.Context(), s.StartAcquire, sharing(lock.Write, readName, "writer:#1"))
}

// unsure checks that of holds whose keys are on their way nobody says that they are over, or gets what they keep.
func (m *moving) unsure(when string) {
	m.Helper()
	for _, r := range m.all() {
		_, extended := lock.Await(m.Context(), m.hasty.StartExtend, r)
		_, released := lock.Await(m.Context(), m.hasty.StartRelease,
			lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Owner, Fence: r.Fence + 1}) // it must not be done after all
		_, seen := m.hasty.See(m.Context(), r.Name)
		_, holders := m.hasty.Holders(m.Context(), r.Name, 10)
		for what, err := range map[string]error{
			"renewed": renewed(m, m.hasty, r)[0], "extended": extended, "shortened": m.hasty.Shorten(m.Context(), r),
			"released": released, "seen": seen, "listed": holders,
		} {
			known := err == nil && what == "listed" && r.Kind != lock.Read // others have no key for that
			if !known && !errors.Is(err, lock.ErrUnavailable) {
				m.Errorf("%s: a %v hold is %s: %v", when, r.Kind, what, err)
			}
		}
	}
	if g, err := m.waits(m.hasty); err == nil || errors.Is(err, lock.ErrKindMismatch) {
		m.Errorf("%s: a writer has fence %d of what is read with fence %d, or fails: %v", when, g.Fence, m.read.Fence, err)
	}
}

func TestHoldsWhoseKeysAreOnTheirWayAreNotOver(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	m := moving{T: t, s: open(t, c), hasty: open(t, c)}
	m.s.within, m.hasty.within = 5*time.Second, 200*time.Millisecond
	m.read, m.write = m.take(sharing(lock.Read, readName, "reader:#1")), m.take(sharing(lock.Write, writeName, "o:#1"))
	m.permits = m.take(sharing(lock.Semaphore, permitsName, "o:#2"))
	if _, err := m.waits(m.s); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("got %v", err)
	}
	of := func(r lock.Renewal) string { return layout.HoldBase(r.Name) + string(r.Owner) }
	single := []string{
		of(m.read) + ":rwlock_timeout:1", of(m.write) + ":write:lockd_fence", layout.PermitsOut(permitsName),
	}
	ofNames := slices.Concat(layout.Keys(lock.Read, readName), layout.Keys(lock.Write, writeName)[:2],
		layout.Keys(lock.Semaphore, permitsName)[:2])

	way := c.Migrate(layout.Slot(readName))
	if errs := renewed(t, m.s, m.all()...); errors.Join(errs...) != nil {
		t.Errorf("before any key is moved: %v", errs)
	}
	if _, err := m.waits(m.s); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("before any key is moved a writer is told %v", err)
	}
	way.MoveKeys(single...)
	m.unsure("the keys of the names are at the old node")
	way.MoveKeys(ofNames...)
	if errs := renewed(t, m.s, m.all()...); errors.Join(errs...) != nil {
		t.Errorf("when all keys are moved: %v", errs)
	}
	way.Finish()
	m.held()

	back := c.Migrate(layout.Slot(readName))
	back.MoveKeys(ofNames...)
	m.unsure("the keys of the names are at the new node")
	back.Finish() // no key was made there meanwhile
	m.held()
	for _, r := range m.all() {
		release(t, m.s, r)
	}
	if g, err := m.waits(m.s); err != nil || g.Fence <= m.read.Fence {
		t.Errorf("the writer got %+v, %v", g, err)
	}
}

// held checks that both are held as before.
func (m *moving) held() {
	m.Helper()
	if errs := renewed(m, m.s, m.all()...); errors.Join(errs...) != nil {
		m.Errorf("when the slot has moved: %v", errs)
	}
	for _, r := range m.all() {
		seen, err := m.s.See(context.Background(), r.Name)
		if err != nil || len(seen.Holds) != 1 || r.Permits == 0 && seen.Holds[0].Fence != r.Fence {
			m.Errorf("when the slot has moved %v, %v is seen, want fence %d", seen.Holds, err, r.Fence)
		}
	}
	if _, err := m.waits(m.s); !errors.Is(err, lock.ErrHeld) {
		m.Errorf("when the slot has moved a writer is told %v", err)
	}
}

// A reader that leaves where its hold has come to, while that of another has not, does not end what that one holds.
func TestAReaderThatLeavesEndsNoHoldThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	m := moving{T: t, s: open(t, c)}
	leaves := m.take(sharing(lock.Read, readName, "reader:#2"))
	m.read = m.take(sharing(lock.Read, readName, "reader:#1"))
	if _, err := m.waits(m.s); !errors.Is(err, lock.ErrHeld) { // so that each key of the name is there
		t.Fatalf("got %v", err)
	}
	way := c.Migrate(layout.Slot(readName))
	of := func(r lock.Renewal) string { return layout.HoldBase(readName) + string(r.Owner) + ":rwlock_timeout:1" }
	way.MoveKeys(append(layout.Keys(lock.Read, readName), of(leaves))...)
	release(t, m.s, leaves)
	way.MoveKeys(of(m.read))
	way.Finish()
	if errs := renewed(t, m.s, m.read); errors.Join(errs...) != nil {
		t.Errorf("the other reader: %v", errs)
	}
	if _, err := m.waits(m.s); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("a writer is told %v", err)
	}
}
