package broker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// chaos is a Store behind a bad network: calls are slow, replies get lost, commands are executed late or not at all,
// and at times nothing can be reached. It keeps the Store's contract.
type chaos struct {
	faults
	lies lie           // the planted bug
	tick time.Duration // all times are multiples of it

	late sync.WaitGroup // commands still under way

	exec sync.Mutex // held while a command is executed, so that forced knows the order
	// forced are the forced releases of each name, guarded by exec.
	forced map[string][]force
	// notes are what was executed for each name, guarded by exec.
	notes map[string][]note

	mu sync.Mutex // guards the fields below
	// returned is when a broker began to release the hold of a name with a fence.
	returned map[string]time.Time
	rng      *rand.Rand
	calm     bool // no more faults
	down     bool
}

// lie is what a store grants now and then though it is held.
type lie string

const (
	noLie      lie = ""
	oneLie     lie = "one name"
	severalLie lie = "several names"
)

// force is a forced release: from then on no hold counts that has a fence up to this one, or that was told before the
// release was over.
type force struct {
	at    time.Time
	fence lock.Fence
	over  time.Time
}

func newChaos(store lock.Store, seed uint64) *chaos {
	c := &chaos{
		faults: faults{Store: store}, rng: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a test
		forced: make(map[string][]force), notes: make(map[string][]note),
		returned: make(map[string]time.Time),
	}
	c.inOrder("", c.meet)
	return c
}

// note is one line of what was executed, for people.
type note struct {
	at   time.Time
	text string
}

func (c *chaos) note(name, format string, args ...any) {
	c.notes[name] = append(c.notes[name], note{time.Now(), fmt.Sprintf(format, args...)})
}

// fate is what happens to one call.
type fate struct {
	before, after time.Duration // on the way there and back
	refused       bool          // surely not done
	lost          bool          // the reply is lost
	late          time.Duration // executed only then; the reply is lost
}

func (c *chaos) fate() fate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calm {
		return fate{}
	}
	f := fate{before: c.upTo(10 * time.Millisecond), after: c.upTo(10 * time.Millisecond)}
	switch n := c.rng.IntN(100); {
	case c.down && n < 50:
		f.refused = true
	case c.down:
		f.lost, f.late = true, time.Second+c.upTo(2*time.Second)
	case n < 4:
		f.refused = true
	case n < 8:
		f.lost, f.after = true, c.upTo(time.Second)
	case n < 12:
		f.lost, f.late = true, c.upTo(3*time.Second)
	case n < 14:
		f.after = c.upTo(2 * time.Second)
	case n < 16:
		f.before = c.upTo(2 * time.Second)
	}
	return f
}

func (c *chaos) upTo(d time.Duration) time.Duration {
	return time.Duration(c.rng.Int64N(int64(d))).Truncate(c.tick)
}

// meet makes a call meet its fate.
func (c *chaos) meet(asked call) error {
	switch r, back := asked.arg.(lock.Return); {
	case back && r.Keep == 0:
		c.mu.Lock()
		if key := fmt.Sprint(r.Name, " ", r.Fence); c.returned[key].IsZero() {
			c.returned[key] = time.Now()
		}
		c.mu.Unlock()
	case asked.verb == "Probe":
		if c.isDown() {
			return lock.ErrUnavailable
		}
		return asked.do()
	case strings.HasSuffix(asked.verb, "Session"):
		return asked.do()
	}
	f := c.fate()
	if f.refused {
		return lock.ErrUnavailable
	}
	if f.late > 0 {
		c.late.Add(1)
		asked.later(f.late, func() {
			defer c.late.Done()
			if asked.verb != "Shorten" { // that one is never carried out when it has returned
				_ = c.execute(asked)
			}
		})
		time.Sleep(f.after)
		return lock.ErrOutcomeUnknown
	}
	asked.wait(f.before)
	err := c.execute(asked)
	time.Sleep(f.after)
	if f.lost {
		return lock.ErrOutcomeUnknown
	}
	return err
}

// execute carries a call out, and may lie.
func (c *chaos) execute(asked call) error {
	asked.t.turn() // nobody waits with exec held
	c.exec.Lock()
	defer c.exec.Unlock()
	err := asked.do()
	claims, percent := []lock.Claim(nil), map[lie]int{oneLie: 5, severalLie: 30}[c.lies]
	switch arg := asked.arg.(type) {
	case string: // the places of fair waiters, or a look at a name
		c.note(arg, "%s: %+v, %v", asked.verb, asked.answer, err)
	case lock.Claim:
		c.note(arg.Name, "%s %+v: %+v, %v", asked.verb, arg, asked.answer, err)
		if asked.verb == "Acquire" && c.lies == oneLie {
			claims = []lock.Claim{arg}
		}
	case []lock.Claim:
		for _, claim := range arg {
			c.note(claim.Name, "%s %+v: %+v, %v", asked.verb, arg, asked.answer, err)
		}
		if c.lies == severalLie {
			claims = arg
		}
	case lock.Return:
		c.note(arg.Name, "%s %+v %+v: %+v, %v", asked.verb, arg, arg.Next, asked.answer, err)
	case lock.Renewal:
		c.note(arg.Name, "%s %+v: %+v, %v", asked.verb, arg, asked.answer, err)
	case []lock.Renewal:
		for _, r := range arg {
			c.note(r.Name, "%s %+v: %+v", asked.verb, r, asked.answer)
		}
	}
	if claims == nil || !isError(err, lock.ErrHeld) || !c.chance(percent) {
		return err
	}
	for _, claim := range claims {
		_, _ = c.Store.ForceRelease(context.Background(), claim.Name, claim.Kind)
	}
	return asked.do()
}

func (c *chaos) chance(percent int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(100) < percent
}

// ForceRelease is never disturbed, so that it is known when it happens.
func (c *chaos) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	c.exec.Lock()
	defer c.exec.Unlock()
	st, err := c.Store.Look(ctx, name)
	if err != nil {
		return false, fmt.Errorf("look: %w", err)
	}
	released, err := c.Store.ForceRelease(ctx, name, k)
	c.note(name, "force %v: %v, %v", k, released, err)
	if released {
		c.forced[name] = append(c.forced[name], force{time.Now(), st.Fence, time.Now()})
	}
	return released, err
}

// whenReturned is when a broker began to release a hold, or now.
func (c *chaos) whenReturned(h session.Hold) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.returned[fmt.Sprint(h.Name, " ", h.Fence)]; ok {
		return at
	}
	return time.Now()
}

func (c *chaos) isDown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// setDown begins or ends an outage. At its end all listeners learn that they may have missed something.
func (c *chaos) setDown(down bool) {
	c.setDeaf(down)
	c.mu.Lock()
	c.down = down
	c.mu.Unlock()
	if !down {
		c.tell(lock.Notice{What: lock.NoticeListening})
	}
}

// calmDown ends all faults.
func (c *chaos) calmDown() {
	c.setDown(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calm = true
}
