package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// judge finds out whether two hold a name at once, whether fences rise, and whether a majority has what is told.
type judge struct {
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

func newJudge(nodes []*node) *judge {
	return &judge{
		nodes: nodes, beliefs: map[string]map[lock.Owner]belief{}, fences: map[string]lock.Fence{},
		forces: map[string]*forces{},
		did:    map[string]int{},
	}
}

func (j *judge) fail(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

func (j *judge) failed(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail(format, args...)
}

func (j *judge) count(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did[what]++
}

// granted is told when an owner hears that it holds a name until a time. Readers may be told in another order than that
// in which they came, so only the fence of who is alone must be greater than all before.
func (j *judge) granted(c lock.Claim, g lock.Grant, since, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did["grants"]++
	if !time.Now().Before(until) {
		j.fail("%s was told that it holds %s when that was over", c.Owner, c.Name)
	}
	if last := j.fences[c.Name]; g.Fence <= last && c.Kind != lock.Read {
		j.fail("fence %d of %s after %d", g.Fence, c.Name, last)
	}
	j.fences[c.Name] = max(j.fences[c.Name], g.Fence)
	j.believe("a grant", c, since, until)
}

// believe notes a hold that was told, and looks who else has the name, and whether a majority knows of it.
//
// Who holds a name when it is freed by force hears of it later. So what was told before counts no more.
func (j *judge) believe(what string, c lock.Claim, since, until time.Time) {
	now := time.Now()
	for o, h := range j.beliefs[c.Name] {
		left := h.until.Sub(now)
		both := j.counts(c.Name, since) && j.counts(c.Name, h.since)
		if both && o != c.Owner && left > 0 && now.Before(until) && (c.Kind != lock.Read || h.kind != lock.Read) {
			j.fail("%s holds %s as %v, and %s does as %v for %v more", c.Owner, c.Name, c.Kind, o, h.kind, left)
		}
	}
	if j.beliefs[c.Name] == nil {
		j.beliefs[c.Name] = map[lock.Owner]belief{}
	}
	j.beliefs[c.Name][c.Owner] = belief{c.Kind, since, until}
	if n := j.known(c, since, until); n < len(j.nodes)/2+1 && j.counts(c.Name, since) && now.Before(until) {
		j.fail("%s of %s to %s as %v for %v is known to %d members", what, c.Name, c.Owner, c.Kind, until.Sub(now), n)
	}
}

// counts says whether what was begun at a time began after the name was last freed by force.
func (j *judge) counts(name string, since time.Time) bool {
	f := j.forces[name]
	return f == nil || f.underWay == 0 && since.After(f.last)
}

// known is how many members have a hold until a time, or had it since another time and lost their data.
func (j *judge) known(c lock.Claim, since, until time.Time) (n int) {
	for _, node := range j.nodes {
		if lost, ever := node.Fresh(); ever && !lost.Before(since) {
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
func (j *judge) prolonged(what string, c lock.Claim, since, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did[what]++
	j.believe(what, c, since, until)
}

// since is when the call began from which an owner knows of its hold.
func (j *judge) since(c lock.Claim) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.beliefs[c.Name][c.Owner].since
}

// atMost has an owner believe in its hold no longer than until a time.
func (j *judge) atMost(c lock.Claim, until time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h, ok := j.beliefs[c.Name][c.Owner]; ok && h.until.After(until) {
		h.until = until
		j.beliefs[c.Name][c.Owner] = h
	}
}

// ended is told before an owner gives a name back.
func (j *judge) ended(c lock.Claim) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.beliefs[c.Name], c.Owner)
}

// forced is told when somebody begins to free a name by force, and returns what is to be called at the end.
func (j *judge) forced(name string) (over func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did["forced releases"]++
	f := j.forces[name]
	if f == nil {
		f = &forces{}
		j.forces[name] = f
	}
	f.underWay++
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		f.underWay--
		f.last = time.Now()
	}
}
