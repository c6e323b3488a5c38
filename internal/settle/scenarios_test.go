package settle

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// scenario is one of testdata/scenarios.txt. It has one name, and owners by short names.
type scenario struct {
	name  string
	kind  lock.Kind
	cfg   Config
	steps []step
	left  string // who has the name at the end
}

// step is what is done, and what is seen then.
type step struct{ do, seen string }

func readScenarios(t *testing.T) (all []*scenario) {
	text, err := os.ReadFile("testdata/scenarios.txt")
	must(t, err)
	var sc *scenario
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(line, "== "); is {
			sc = &scenario{name: name, kind: lock.Exclusive}
			all = append(all, sc)
		} else if options, is := strings.CutPrefix(line, "-- "); is {
			for option := range strings.SplitSeq(options, ", ") {
				sc.set(t, option)
			}
		} else if line != "" && !strings.HasPrefix(line, "#") {
			do, seen, _ := strings.Cut(line, ":")
			sc.steps = append(sc.steps, step{do, strings.TrimSpace(seen)})
		}
	}
	return all
}

func (sc *scenario) set(t *testing.T, option string) {
	what, value, _ := strings.Cut(option, "=")
	switch what {
	case "fair":
		sc.kind = lock.Fair
	case "semaphore": // of which each takes five permits
		sc.kind = lock.Semaphore
	case "member":
		sc.cfg.Member = true
	case "most":
		sc.cfg.Most, _ = strconv.Atoi(value)
	case "longest":
		sc.cfg.LongestLease, _ = time.ParseDuration(value)
	case "left":
		sc.left = value
	case "nothing left":
	default:
		t.Fatalf("%s: what is %q?", sc.name, option)
	}
}

func TestScenarios(t *testing.T) {
	for _, sc := range readScenarios(t) {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{t: t, kind: sc.kind}
				p.s, p.w = newSettled(t, sc.cfg)
				for i, st := range sc.steps {
					if got := p.do(strings.Fields(st.do)); got != st.seen {
						t.Fatalf("step %d, %s: got %q, want %q", i+1, st.do, got, st.seen)
					}
				}
				if st, err := p.w.Look(t.Context(), "n"); err != nil || string(st.Owner) != full(sc.left) {
					t.Errorf("at the end %q has it (%v), want %q", st.Owner, err, sc.left)
				}
				p.w.lose(0)
				synctest.Wait()
			})
		})
	}
}

// play plays a scenario.
type play struct {
	t    *testing.T
	kind lock.Kind
	s    *Store
	w    *way
	kept []*command // that are not told yet

	mu   sync.Mutex // guards the field below
	told []string
}

// full is an owner by its short name: u repeats.
func full(name string) string {
	switch name {
	case "":
		return ""
	case "u":
		return "u" + lock.UnarySuffix
	}
	return name
}

func (p *play) tell(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, what)
}

// do does one step and returns what is seen.
func (p *play) do(words []string) string {
	if p.fate(words) {
		synctest.Wait()
		return p.seen()
	}
	owner := ""
	if len(words) > 1 {
		owner = words[1]
	}
	c := lock.Claim{Name: "n", Kind: p.kind, Owner: lock.Owner(full(owner)), TTL: 24 * time.Hour, Fence: p.fence(words)}
	if p.kind == lock.Semaphore {
		c.Permits, c.Limit = 5, 10
	}
	granted := func(_ lock.Grant, err error) { p.tell(owner + " " + said("granted", err)) }
	switch words[0] {
	case "acquire":
		p.s.StartAcquire(c, granted)
	case "like":
		owner, c.Name, c.Owner, c.Tenant = owner+"2", "other", c.Owner+"2", c.Owner.For(c.Tenant)
		p.s.StartAcquire(c, granted)
	case "place":
		c.Place = 6 * time.Second
		p.s.StartAcquire(c, granted)
	case "all":
		other := c
		other.Name = "m"
		go func() {
			_, err := p.s.AcquireAll(p.t.Context(), []lock.Claim{other, c})
			granted(lock.Grant{}, err)
		}()
	case "release":
		p.release(words)
	case "permits":
		st, err := p.w.Look(p.t.Context(), "n")
		must(p.t, err)
		p.tell(fmt.Sprint(st.Holders))
	case "wait":
		go func() {
			p.s.Wait(p.t.Context())
			p.tell("all are settled")
		}()
	default:
		p.t.Fatalf("what is %q?", words[0])
	}
	synctest.Wait()
	return p.seen()
}

// fence is what an acquisition or a release names, 0 for none.
func (p *play) fence(words []string) lock.Fence {
	if len(words) != 4 || words[2] != "fence" {
		return 0
	}
	n, err := strconv.ParseUint(words[3], 10, 64)
	must(p.t, err)
	return lock.Fence(n)
}

func (p *play) release(words []string) {
	r := lock.Return{Name: "n", Kind: p.kind, Owner: lock.Owner(full(words[1])), Fence: p.fence(words)}
	switch {
	case r.Fence != 0:
	case len(words) > 3 && words[2] == "keep":
		keep, err := strconv.ParseUint(words[3], 10, 32)
		must(p.t, err)
		r.Keep, r.Permits = uint32(keep), 5
	case len(words) > 3:
		r.Next = &lock.Successor{Owner: lock.Owner(full(words[3])), TTL: 24 * time.Hour}
	}
	done := func(res lock.Returned, err error) {
		what := "released"
		switch {
		case res.Assumed:
			what = "assumed"
		case res.HandedOver != 0:
			what = "handed over"
		}
		p.tell(words[1] + " " + said(what, err))
	}
	p.s.StartRelease(r, done)
}

// fate decides what becomes of what is under way, if words say that.
func (p *play) fate(words []string) bool {
	arg := ""
	if len(words) > 1 {
		arg = words[1]
	}
	switch words[0] {
	case "deliver":
		p.w.deliver(1)
	case "lose":
		n, err := strconv.Atoi(arg)
		must(p.t, err)
		p.w.lose(n)
	case "unavailable":
		p.w.refuse(lock.ErrUnavailable)
	case "full":
		p.w.refuse(lock.ErrStoreFull)
	case "over":
		p.w.refuse(lock.ErrOver)
	case "few":
		p.w.few()
	case "hold": // the first one is carried out, and told later
		for _, c := range p.w.take(1) {
			c.run()
			p.kept = append(p.kept, c)
		}
	case "held", "forgotten": // their answers come, or are lost
		var err error
		if words[0] == "forgotten" {
			err = lock.ErrOutcomeUnknown
		}
		for _, c := range p.kept {
			c.tell(err)
		}
	case "advance":
		d, err := time.ParseDuration(arg)
		must(p.t, err)
		time.Sleep(d)
	case "close":
		p.s.Close()
	case "pending":
		p.tell(strconv.FormatInt(p.s.n.Load(), 10))
	case "dropped":
		p.tell(dropped(p.s))
	default:
		return false
	}
	return true
}

func (p *play) seen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := append(p.told, p.w.sentLately()...)
	p.told = nil
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], lock.UnarySuffix, "")
	}
	return strings.Join(all, ", ")
}

// said is what an outcome is called.
func said(well string, err error) string {
	for _, e := range []struct {
		err  error
		name string
	}{
		{lock.ErrOutcomeUnknown, "unknown"},
		{lock.ErrNotReplicated, "not replicated"},
		{lock.ErrHeld, "held"},
		{lock.ErrOver, "over"},
		{lock.ErrNotHeld, "not held"},
		{lock.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	if err != nil {
		return fmt.Sprint(err)
	}
	return well
}
