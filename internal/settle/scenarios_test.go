package settle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// step is what is done, and what is seen then: what was sent ("> acquire a"), and what was told ("a granted").
type step struct{ do, seen string }

// scenarios have one name and owners a, b and c. What ends with "left" is that the name is held at the end.
var scenarios = []struct {
	name  string
	kind  lock.Kind
	cfg   Config
	steps []step
	left  string // who has the name at the end
}{
	{"a call without trouble passes through", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"deliver", "a released"},
		{"release a", "> release a"},
		{"deliver", "a not held"},
	}, ""},
	{"an acquisition of unknown outcome is made once more", 0, Config{}, []step{
		{"acquire a", "> acquire a"}, {"lose 0", "> acquire a"}, {"deliver", "a granted"},
	}, "a"},
	{"a refusal after an unknown outcome is certain", 0, Config{}, []step{
		{"acquire b", "> acquire b"},
		{"deliver", "b granted"},
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"deliver", "a held"},
		{"rows", "0"},
	}, "b"},
	{"an acquisition that stays unknown leaves nothing", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"so does one that is refused after an unknown outcome, as nothing was asked", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"unavailable", "a unknown, > release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"and one that finds the store full", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"full", "a unknown, > release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"an acquisition that was not made is refused, and that is all", 0, Config{}, []step{
		{"acquire a", "> acquire a"}, {"unavailable", "a unavailable"}, {"rows", "0"},
	}, ""},
	{"a member's acquisition is not made once more", 0, Config{Once: true}, []step{
		{"acquire a", "> acquire a"}, {"lose 1", "a unknown, > release a"}, {"deliver", ""},
	}, ""},
	{"a release that is behind a member's acquisition ends it, whatever is lost", 0, Config{Once: true}, []step{
		{"acquire a", "> acquire a"},
		{"release a", "> release a"},
		{"lose 1", "a unknown, > release a, > release a"},
		{"deliver", ""},
		{"deliver", "a assumed"},
		{"rows", "0"},
	}, ""},
	{"a row goes on until it is answered", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"lose 0", ""},
		{"advance 50ms", "> release a"},
		{"unavailable", ""},
		{"advance 100ms", "> release a"},
		{"full", ""},
		{"advance 200ms", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"an acquisition cancels the row of its owner", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"lose 0", ""},
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"advance 1h", ""},
		{"rows", "0"},
	}, "a"},
	{"it goes behind the call of the row that is under way", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"acquire a", "> acquire a"},
		{"deliver", ""},
		{"deliver", "a granted"},
		{"rows", "0"},
	}, "a"},
	{"the answer to a cancelled row does not touch a newer one", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"hold", ""},
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"unavailable", "a unavailable"},
		{"held", ""},
		{"advance 50ms", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"the row goes on when the acquisition was not made", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"lose 0", ""},
		{"acquire a", "> acquire a"},
		{"advance 1s", ""},
		{"unavailable", "a unavailable, > release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"the row is over when the acquisition was refused", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"lose 1", ""},
		{"acquire b", "> acquire b"},
		{"deliver", "b granted"},
		{"acquire a", "> acquire a"},
		{"deliver", "a held"},
		{"advance 1h", ""},
		{"rows", "0"},
	}, "b"},
	{"one that waits keeps its place until it asks again", lock.Fair, Config{}, []step{
		{"acquire b", "> acquire b"},
		{"deliver", "b granted"},
		{"place a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown"},
		{"place c", "> acquire c"},
		{"deliver", "c held"},
		{"advance 4s", ""},
		{"place a", "> acquire a"},
		{"deliver", "a held"},
		{"advance 4s", ""},
		{"release b", "> release b"},
		{"deliver", "b released"},
		{"place a", "> acquire a"},
		{"deliver", "a granted"},
	}, "a"},
	{"one that does not ask again leaves its place", lock.Fair, Config{}, []step{
		{"place a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown"},
		{"advance 6s", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"a release of unknown outcome is made three times", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"lose 0", "> release a"},
		{"lose 0", "> release a"},
		{"lose 0", "a unknown"},
		{"advance 200ms", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"what is not there after an unknown outcome was ended by that call", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"lose 1", "> release a"},
		{"deliver", "a assumed"},
		{"rows", "0"},
	}, ""},
	{"unless the store knows better", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"lose 1", "> release a"},
		{"over", "a over"},
		{"rows", "0"},
	}, ""},
	{"a release that is refused after an unknown outcome goes on", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"lose 0", "> release a"},
		{"unavailable", "> release a"},
		{"unavailable", "a unknown"},
		{"advance 200ms", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"so does one that was not made", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a", "> release a"},
		{"unavailable", "a unavailable"},
		{"advance 50ms", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"a name is handed over", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a to b", "> release a to b"},
		{"deliver", "a handed over"},
		{"rows", "0"},
	}, "b"},
	{"what may have been handed over is asked for by the successor", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a to b", "> release a to b"},
		{"lose 1", "> release a"},
		{"deliver", "a assumed"},
		{"acquire b", "> acquire b"},
		{"deliver", "b granted"},
		{"advance 1h", ""},
		{"rows", "0"},
	}, "b"},
	{"or released", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a to b", "> release a to b"},
		{"lose 1", "> release a"},
		{"deliver", "a assumed"},
		{"advance 6s", "> release b"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"also when the caller did not wait", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a to b for 1s", "> release a to b"},
		{"advance 1s", "a unknown"},
		{"deliver", ""},
		{"advance 6s", "> release b"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"a grant that is not replicated is released before that is told", 0, Config{}, []step{
		{"acquire a", "> acquire a"}, {"few", "> release a"}, {"deliver", "a not replicated"}, {"rows", "0"},
	}, ""},
	{"and if that is not answered, after that", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"few", "> release a"},
		{"unavailable", "a not replicated"},
		{"advance 50ms", "> release a"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"what was handed over and is not replicated is free", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"release a to b", "> release a to b"},
		{"few", "> release b"},
		{"deliver", "a released"},
		{"rows", "0"},
	}, ""},
	{"a caller that waits no more leaves nothing", 0, Config{}, []step{
		{"acquire a for 1s", "> acquire a"},
		{"advance 1s", "a unknown, > release a"},
		{"deliver", ""},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"some of several names are released before it is told", 0, Config{}, []step{
		{"acquire b", "> acquire b"},
		{"deliver", "b granted"},
		{"all a", "> acquire a"},
		{"deliver", "> acquire a"},
		{"deliver", "> release a, > release a"},
		{"deliver", ""},
		{"deliver", "a held"},
		{"rows", "0"},
	}, "b"},
	{"of several names all may have been taken by a call of unknown outcome", 0, Config{}, []step{
		{"acquire b", "> acquire b"},
		{"deliver", "b granted"},
		{"all a", "> acquire a"},
		{"deliver", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"deliver", "> acquire a"},
		{"lose 1", "a unknown, > release a, > release a"},
		{"deliver", ""},
		{"deliver", ""},
		{"rows", "0"},
	}, "b"},
	{"an owner that repeats finds what it was given", 0, Config{}, []step{
		{"acquire u", "> acquire u"}, {"lose 1", "> acquire u"}, {"lose 1", "u unknown"}, {"advance 1h", ""}, {"rows", "0"},
	}, "u"},
	{"also what was not replicated", 0, Config{}, []step{
		{"acquire u", "> acquire u"}, {"few", "u unknown"}, {"advance 1h", ""}, {"rows", "0"},
	}, "u"},
	{"its acquisition cancels its release that is under way", 0, Config{}, []step{
		{"acquire u", "> acquire u"},
		{"deliver", "u granted"},
		{"release u", "> release u"},
		{"acquire u", "> acquire u"},
		{"lose 0", "u unknown, > acquire u"},
		{"deliver", "u granted"},
		{"advance 1h", ""},
		{"rows", "0"},
	}, "u"},
	{"its release is done, too", 0, Config{}, []step{
		{"acquire u", "> acquire u"},
		{"deliver", "u granted"},
		{"release u", "> release u"},
		{"lose 0", "> release u"},
		{"lose 0", "> release u"},
		{"lose 0", "u unknown"},
		{"advance 200ms", "> release u"},
		{"deliver", ""},
		{"rows", "0"},
	}, ""},
	{"a row that nobody answers is given up", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"advance 26h", ""},
		{"lose 0", ""},
		{"rows", "0"},
		{"dropped", "1"},
	}, ""},
	{"there is room for so many", 0, Config{Most: 10}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"lose 0", ""},
		{"acquire a", "> acquire a"},
		{"deliver", "a granted"},
		{"acquire c", "> acquire c"},
		{"lose 0", "> acquire c"},
		{"lose 0", "c unknown, > release c"},
		{"rows", "1"},
		{"like c", "> acquire c2"},
		{"lose 0", "> acquire c2"},
		{"lose 0", "c2 unknown"},
		{"dropped", "1"},
	}, "a"},
	{"Wait has everything tried", lock.Fair, Config{}, []step{
		{"place a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown"},
		{"wait", "> release a"},
		{"deliver", "all are settled"},
	}, ""},
	{"Close ends everything", 0, Config{}, []step{
		{"acquire a", "> acquire a"},
		{"lose 1", "> acquire a"},
		{"lose 1", "a unknown, > release a"},
		{"close", ""},
		{"lose 0", ""},
		{"advance 1h", ""},
		{"rows", "0"},
	}, "a"},
}

func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &play{t: t, kind: max(sc.kind, lock.Exclusive)}
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
	c := lock.Claim{Name: "n", Kind: p.kind, Owner: lock.Owner(full(owner)), TTL: 24 * time.Hour}
	granted := func(_ lock.Grant, err error) { p.tell(owner + " " + said("granted", err)) }
	switch ctx, words := p.within(words); words[0] {
	case "acquire":
		if ctx == nil {
			p.s.StartAcquire(c, granted)
			break
		}
		go func() { granted(p.s.Acquire(ctx, c)) }()
	case "like":
		owner, c.Name, c.Owner, c.Tenant = owner+"2", "other", c.Owner+"2", c.For()
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
		p.release(ctx, words)
	case "wait":
		go func() {
			if p.s.Wait(p.t.Context()) {
				p.tell("all are settled")
			}
		}()
	default:
		p.t.Fatalf("what is %q?", words[0])
	}
	synctest.Wait()
	return p.seen()
}

// within is a ctx that ends as words say, nil if they do not.
func (p *play) within(words []string) (context.Context, []string) {
	n := len(words)
	if n < 3 || words[n-2] != "for" {
		return nil, words
	}
	d, err := time.ParseDuration(words[n-1])
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), d)
	p.t.Cleanup(cancel)
	return ctx, words[:n-2]
}

func (p *play) release(ctx context.Context, words []string) {
	r := lock.Return{Name: "n", Kind: p.kind, Owner: lock.Owner(full(words[1]))}
	if len(words) > 3 {
		r.Next = &lock.Successor{Owner: lock.Owner(words[3]), TTL: 24 * time.Hour}
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
	if ctx == nil {
		p.s.StartRelease(r, done)
		return
	}
	go func() { done(p.s.Release(ctx, r)) }()
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
		if err != nil {
			p.t.Fatal(err)
		}
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
	case "held":
		for _, c := range p.kept {
			c.tell(nil)
		}
	case "advance":
		d, err := time.ParseDuration(arg)
		if err != nil {
			p.t.Fatal(err)
		}
		time.Sleep(d)
	case "close":
		p.s.Close()
	case "rows":
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
