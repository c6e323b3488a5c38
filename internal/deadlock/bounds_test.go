package deadlock

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/test/harness"
)

// circles is a replica at which actors wait in circles of a size.
type circles struct {
	n, size int
	one     bool // all are one actor, that waits for what it holds
	asked   atomic.Int64
}

func (c *circles) name(i int) string { return fmt.Sprintf("%04d-%s", i, strings.Repeat("x", 200)) }

// next is who holds what one waits for.
func (c *circles) next(i int) int { return i/c.size*c.size + (i+1)%c.size }

func (c *circles) Waits(actors []string, _ time.Duration, most int) (waits []Wait, more bool) {
	c.asked.Add(1)
	only := make(map[string]bool)
	for _, a := range actors {
		only[a] = true
	}
	for i := range min(c.n, most) {
		actor, holds := fmt.Sprint(i), c.next(i)
		if c.one {
			actor, holds = "0", 0
		}
		if len(only) == 0 || only[actor] {
			waits = append(waits, Wait{
				Actor: actor, Owner: lock.Owner(fmt.Sprint(i)), Age: time.Duration(1 + i),
				Wants: []Want{{Name: c.name(holds), Kind: lock.Exclusive}},
				About: &About{Client: strings.Repeat("c", 128), Annotation: strings.Repeat("a", 256)},
			})
		}
	}
	return waits, len(waits) == most
}

func (c *circles) AnyWaits(time.Duration) bool { return c.n > 0 }

func (c *circles) Holds(name string, _ int) []Hold {
	owner := strings.TrimLeft(name[:4], "0")
	if owner == "" {
		owner = "0"
	}
	return []Hold{{Actor: owner, Name: name, Kind: lock.Exclusive, Owner: lock.Owner(owner), Fence: 1}}
}

func (c *circles) IsWaiting(lock.Owner) bool    { return false }
func (c *circles) Fail(lock.Owner, *Error) bool { return false }

func finderOf(t *testing.T, c *circles) *Finder {
	f := New(Config{ID: "1", Store: memstore.New(), Local: c, Log: zap.NewNop()})
	t.Cleanup(f.Leave)
	return f
}

func TestWhatIsToldOfDeadlocksIsBounded(t *testing.T) {
	for _, test := range []struct{ n, size, found, members int }{
		{n: 9_000, size: 2, found: maxFound, members: 2},
		{n: 9_000, size: 1, found: maxFound, members: 1},
		{n: 100, size: 100, found: 1, members: maxMembers},
	} {
		t.Run(fmt.Sprintf("%d in circles of %d", test.n, test.size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				found, err := finderOf(t, &circles{n: test.n, size: test.size}).Look(t.Context())
				harness.Must(t, err)
				if len(found.Deadlocks) != test.found || len(found.Deadlocks[0].Members) != test.members {
					t.Fatalf("%d deadlocks, the first one with %d members", len(found.Deadlocks), len(found.Deadlocks[0].Members))
				}
				if got := found.Deadlocks[0].Omitted; got != test.size-test.members {
					t.Errorf("%d members are omitted, want %d", got, test.size-test.members)
				}
				message, err := json.Marshal(Question{Found: found.Deadlocks})
				if err != nil || len(message) > 2<<20 {
					t.Errorf("the message has %d bytes (%v)", len(message), err)
				}
			})
		})
	}
	var names int
	waits, _ := (&circles{n: 5000, size: 2}).Waits(nil, 0, 5000)
	for _, n := range namesOf(waits) {
		names += len(n)
	}
	if names > nameBytes || names < nameBytes/2 {
		t.Errorf("names of %d bytes are asked for", names)
	}
}

func TestALookIsSharedByAllWhoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &circles{n: 10, size: 2}
		f := finderOf(t, c)
		for range 1000 {
			if found, err := f.Look(t.Context()); err != nil || len(found.Deadlocks) != 5 {
				t.Fatalf("got %d, %v", len(found.Deadlocks), err)
			}
			time.Sleep(time.Millisecond)
		}
		if asked := c.asked.Load(); asked > 10 {
			t.Errorf("%d questions were answered for 1,000 looks in a second", asked)
		}
	})
}

// An actor with more requests than are told may be granted one of those: nothing is told of it.
func TestAnActorWithTooManyRequestsIsInNoDeadlock(t *testing.T) {
	for n, want := range map[int]int{maxWaits - 1: 1, maxWaits: 0} {
		synctest.Test(t, func(t *testing.T) {
			found, err := finderOf(t, &circles{n: n, size: 1, one: true}).Look(t.Context())
			if err != nil || len(found.Deadlocks) != want {
				t.Errorf("%d requests: got %d deadlocks, %v, want %d", n, len(found.Deadlocks), err, want)
			}
		})
	}
}
