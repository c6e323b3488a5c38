package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// checker finds out whether two hold a name at once, whether fences rise, and whether a majority has what is told.
type checker struct {
	mu      sync.Mutex // guards the fields below
	nodes   []*node
	beliefs map[string]map[lock.Owner]belief
	fences  map[string]lock.Fence
	forces  map[string]*forces
	wrong   []string
	did     map[string]int // how often what was done
}

// belief is a hold as its owner knows it.
type belief struct {
	kind  lock.Kind
	since time.Time // when the call began that told so
	until time.Time
}

// forces are the forced releases of a name.
type forces struct {
	underWay int
	last     time.Time // when the last one was over
}

func newChecker(nodes []*node) *checker {
	return &checker{
		nodes: nodes, beliefs: map[string]map[lock.Owner]belief{}, fences: map[string]lock.Fence{},
		forces: map[string]*forces{},
		did:    map[string]int{},
	}
}

func (k *checker) fail(format string, args ...any) {
	k.wrong = append(k.wrong, fmt.Sprintf(format, args...))
}

func (k *checker) failed(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail(format, args...)
}

func (k *checker) count(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.did[what]++
}

// granted is told when an owner hears that it holds a name until a time. Readers may be told in another order than that
// in which they came, so only the fence of who is alone must be greater than all before.
func (k *checker) granted(c lock.Claim, g lock.Grant, since, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.did["grants"]++
	if !time.Now().Before(until) {
		k.fail("%s was told that it holds %s when that was over", c.Owner, c.Name)
	}
	if last := k.fences[c.Name]; g.Fence <= last && c.Kind != lock.Read {
		k.fail("fence %d of %s after %d", g.Fence, c.Name, last)
	}
	k.fences[c.Name] = max(k.fences[c.Name], g.Fence)
	k.believe("a grant", c, since, until)
}

// believe notes a hold that was told, and looks who else has the name, and whether a majority knows of it.
//
// Who holds a name when it is freed by force hears of it later. So what was told before counts no more.
func (k *checker) believe(what string, c lock.Claim, since, until time.Time) {
	now := time.Now()
	for o, h := range k.beliefs[c.Name] {
		left := h.until.Sub(now)
		both := k.counts(c.Name, since) && k.counts(c.Name, h.since)
		if both && o != c.Owner && left > 0 && now.Before(until) && (c.Kind != lock.Read || h.kind != lock.Read) {
			k.fail("%s holds %s as %v, and %s does as %v for %v more", c.Owner, c.Name, c.Kind, o, h.kind, left)
		}
	}
	if k.beliefs[c.Name] == nil {
		k.beliefs[c.Name] = map[lock.Owner]belief{}
	}
	k.beliefs[c.Name][c.Owner] = belief{c.Kind, since, until}
	if n := k.known(c, since, until); n < len(k.nodes)/2+1 && k.counts(c.Name, since) && now.Before(until) {
		k.fail("%s of %s to %s as %v for %v is known to %d members", what, c.Name, c.Owner, c.Kind, until.Sub(now), n)
	}
}

// counts says whether what was begun at a time began after the name was last freed by force.
func (k *checker) counts(name string, since time.Time) bool {
	f := k.forces[name]
	return f == nil || f.underWay == 0 && since.After(f.last)
}

// known is how many members have a hold until a time, or had it since another time and lost their data.
func (k *checker) known(c lock.Claim, since, until time.Time) (n int) {
	for _, node := range k.nodes {
		if lost, ever := node.DataLoss(); ever && !lost.Before(since) {
			n++
			continue
		}
		hs, _ := node.Store.Holders(context.Background(), c.Name, lock.MaxSeen)
		for _, h := range hs {
			if h.Owner == c.Owner && h.Kind == c.Kind && !time.Now().Add(h.TTL).Before(until) {
				n++
			}
		}
	}
	return n
}

// prolonged is told when an owner hears that it holds a name until another time.
func (k *checker) prolonged(what string, c lock.Claim, since, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.did[what]++
	k.believe(what, c, since, until)
}

// since is when the call began from which an owner knows of its hold.
func (k *checker) since(c lock.Claim) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.beliefs[c.Name][c.Owner].since
}

// atMost has an owner believe in its hold no longer than until a time.
func (k *checker) atMost(c lock.Claim, until time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h, ok := k.beliefs[c.Name][c.Owner]; ok && h.until.After(until) {
		h.until = until
		k.beliefs[c.Name][c.Owner] = h
	}
}

// ended is told before an owner releases a name.
func (k *checker) ended(c lock.Claim) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.beliefs[c.Name], c.Owner)
}

// forced is told when somebody begins to free a name by force, and returns what is to be called at the end.
func (k *checker) forced(name string) (over func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.did["forced releases"]++
	f := k.forces[name]
	if f == nil {
		f = &forces{}
		k.forces[name] = f
	}
	f.underWay++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		f.underWay--
		f.last = time.Now()
	}
}
