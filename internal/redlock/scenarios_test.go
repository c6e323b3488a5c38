package redlock

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/scenariotest"
	"github.com/lockd-io/lockd/internal/watching"
)

// TestScenarios plays the files in testdata. README.md there has their words.
func TestScenarios(t *testing.T) {
	t.Parallel()
	scenariotest.Play(t, os.DirFS("testdata"), func(t *testing.T, _ string, _ int, text string) { vary(t, text) })
}

// vary plays a scenario with each value that its first lines have for a word.
func vary(t *testing.T, body string) {
	first, rest, _ := strings.Cut(body, "\n")
	if word, values, found := strings.Cut(first, ": "); found {
		for value := range strings.SplitSeq(values, " | ") {
			vary(t, strings.ReplaceAll(rest, word, strings.ReplaceAll(value, "; ", "\n")))
		}
		return
	}
	words := strings.Fields(first)
	cfg := Config{}
	if at := after(words, "quarantine"); at != "" {
		cfg.Quarantine, _ = time.ParseDuration(at)
	}
	members, err := strconv.Atoi(words[0])
	if err != nil || len(words) > 1 && cfg.Quarantine == 0 || len(words) > 4 {
		t.Fatalf("how many members? %q", first)
	}
	inWorld(t, members, cfg, func(w *world) {
		if slices.Contains(words, "new") {
			w.new = time.Now()
			for _, n := range w.nodes {
				n.since, n.lost = w.new, true
			}
			w.Store = w.another(cfg)
		}
		p := &player{
			world: w, cfg: cfg, body: body, replicas: map[string]*Store{"": w.Store}, told: map[string]lock.Claim{},
			last: map[string]lock.Fence{}, under: map[string]chan result{},
			given: map[lock.Fence]string{}, hubs: map[*Store]*watching.Hub{}, ears: map[string]*ear{},
		}
		for _, n := range w.nodes {
			f := &fates{once: map[string][]fate{}, each: map[string]fate{}}
			n.choose(f.next)
			p.fates = append(p.fates, f)
		}
		for line := range strings.Lines(rest) {
			if p.line = strings.TrimSpace(line); p.line != "" && p.line[0] != '#' {
				p.play(strings.Fields(p.line))
			}
		}
	})
}

// player plays one scenario.
type player struct {
	*world
	cfg      Config
	body     string // of the scenario
	line     string
	fates    []*fates
	replicas map[string]*Store
	told     map[string]lock.Claim // the holds of owners, by name and owner, with their fences
	last     map[string]lock.Fence // of each name
	under    map[string]chan result
	took     time.Duration         // the last call
	woken    atomic.Int64          // how often those who wait were
	given    map[lock.Fence]string // whom
	hubs     map[*Store]*watching.Hub
	ears     map[string]*ear // of those who listen or watch
}

// fates are what becomes of the calls of a member.
type fates struct {
	mu   sync.Mutex // guards the fields below
	all  fate
	each map[string]fate
	once map[string][]fate
}

func (f *fates) next(op string) fate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if next := f.once[op]; len(next) > 0 {
		f.once[op] = next[1:]
		return next[0]
	}
	if one, there := f.each[op]; there {
		return one
	}
	return f.all
}

// result is what a call returned: a word, and what else is known.
type result struct {
	word  string
	by    lock.Owner
	retry time.Duration
	fence lock.Fence
	count uint32
}

func (p *player) wrong(format string, args ...any) {
	p.Helper()
	p.Fatalf("%s: %s\nin\n%s", p.line, fmt.Sprintf(format, args...), p.body)
}

// after is the word that follows another one.
func after(words []string, word string) string {
	if at := slices.Index(words, word); at >= 0 && at+1 < len(words) {
		return words[at+1]
	}
	return ""
}

func (p *player) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.wrong("%v", err)
	}
	return d
}

func (p *player) play(words []string) {
	if len(words) > 2 && words[1] == "times" {
		n, _ := strconv.Atoi(words[0])
		begun := time.Now()
		for range n {
			for one := range strings.SplitSeq(strings.Join(words[2:], " "), ";") {
				p.play(strings.Fields(one))
			}
		}
		p.took = time.Since(begun)
		return
	}
	switch words[0] {
	case "sleep":
		time.Sleep(p.duration(words[1]))
	case "settle":
		synctest.Wait()
	case "took":
		if want := p.duration(words[len(words)-1]); words[1] == "<" && p.took >= want || words[1] != "<" && p.took != want {
			p.wrong("it took %v", p.took)
		}
	case "holders":
		for i, o := range p.holders("n") {
			if want := strings.Trim(words[i+1], "-"); o != owner(want) {
				p.wrong("they are %q", p.holders("n"))
			}
		}
	case "holds":
		for i, n := range p.nodes {
			if hs, _ := n.Store.Holders(p.Context(), "n", lock.MaxSeen); fmt.Sprint(len(hs)) != words[i+1] {
				p.wrong("member %d has %+v", i, hs)
			}
		}
	case "forgotten":
		for _, s := range p.replicas {
			if n := s.underWay.Load(); n != 0 {
				p.wrong("%d calls are under way", n)
			}
		}
		if n := p.unsettled(); n != 0 {
			p.wrong("%v releases are not settled", n)
		}
	case "woken":
		if n := p.woken.Load(); fmt.Sprint(n) != words[1] {
			p.wrong("%d times", n)
		}
	case "hears": // of forced releases, as a broker does
		p.Cleanup(p.by(words).ListenForced(func(string) {}))
	case "ahead":
		hours, _ := strconv.Atoi(words[1])
		p.by(words).hours(hours)
	default:
		if strings.ContainsAny(words[0][:1], "01234") || words[0] == "all" {
			p.member(words)
		} else {
			p.call(words)
		}
	}
}

// by is the replica that is named.
func (p *player) by(words []string) *Store {
	name := after(words, "by")
	if p.replicas[name] == nil {
		p.replicas[name] = p.another(p.cfg)
	}
	return p.replicas[name]
}

// member has something happen at some members, or checks it.
func (p *player) member(words []string) {
	for i, n := range p.nodes {
		if words[0] != "all" && !slices.Contains(strings.Split(words[0], ","), strconv.Itoa(i)) {
			continue
		}
		f, rest := p.fates[i], words[2:]
		switch words[1] {
		case "next", "each", "is", "lags":
			p.meets(f, words[1], rest)
		case "restarts":
			n.restart()
		case "expires":
			n.Expire("n")
		case "takes":
			p.puts(i, p.claim(rest[0], rest))
		case "gives":
			_, err := lock.Await(p.Context(), n.Store.StartRelease, p.back(rest[0], rest))
			if got := word(err); got != cmp.Or(after(rest, "="), "ok") {
				p.wrong("%s", got)
			}
		case "has":
			name := cmp.Or(after(rest, "on"), "n")
			st, err := n.Store.Look(p.Context(), name)
			known := p.told[name+" "+rest[0]].Fence
			if err != nil || st.Owner != owner(rest[0]) || slices.Contains(rest, "told") && st.Fence != known ||
				after(rest, "for") != "" && st.TTL < p.duration(after(rest, "for")) ||
				after(rest, "left") != "" && st.TTL != p.duration(after(rest, "left")) {
				p.wrong("it has %+v, %v; told was %d", st, err, known)
			}
		case "loses", "sends":
			n.mu.Lock()
			n.losesNotices = words[1] == "loses"
			n.mu.Unlock()
		case "says":
			n.says(noticed[rest[0]])
		case "answers":
			if p.Store.members[i].silent.Load() {
				p.wrong("it counts as silent")
			}
		case "lacks":
			if o := n.has(cmp.Or(after(rest, "on"), "n")); o == owner(rest[0]) {
				p.wrong("it has it")
			}
		case "asked":
			if got := n.called(rest[0]); strconv.Itoa(got) != rest[1] {
				p.wrong("%d times", got)
			}
		default:
			p.wrong("nobody knows %s", words[1])
		}
	}
}

// meets has calls of a member meet a fate from now on.
func (p *player) meets(f *fates, which string, words []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch which {
	case "next":
		f.once[words[0]] = append(f.once[words[0]], p.fate(words[1:]))
	case "each":
		f.each[words[0]] = p.fate(words[1:])
	case "is":
		f.all = p.fate(words)
		clear(f.once)
		clear(f.each)
	case "lags":
		d := p.duration(words[0])
		f.all = fate{before: d / 2, after: d - d/2}
	}
}

// fate is well if there are no words.
func (p *player) fate(words []string) (f fate) {
	for i, word := range words {
		switch word {
		case "down":
			f.refuse = true
		case "silent":
			f.noRequest = true
		case "noreply":
			f.noReply = true
		case "late": // it is executed so late
			f.before = p.duration(words[i+1])
		case "answers": // and answers so late
			f.after = p.duration(words[i+1])
		case "full":
			f.says = lock.ErrStoreFull
		case "mismatched":
			f.says = lock.ErrKindMismatch
		}
	}
	return f
}

// claim is that of an owner, as its hold was told if it was.
func (p *player) claim(o string, words []string) lock.Claim {
	c := claimOf(cmp.Or(after(words, "on"), "n"), owner(o))
	told := p.told[c.Name+" "+o]
	c.Kind = cmp.Or(told.Kind, c.Kind)
	for i, word := range words[:len(words)-1] {
		switch next := words[i+1]; word {
		case "as":
			c.Kind = map[string]lock.Kind{"exclusive": lock.Exclusive, "read": lock.Read, "write": lock.Write}[next]
		case "for":
			c.TTL = p.duration(next)
		case "place":
			c.Place = p.duration(next)
		case "beside":
			c.WriteOwner = owner(next)
		case "fence":
			c.Fence = told.Fence
			if n, err := strconv.ParseUint(next, 10, 64); err == nil {
				c.Fence = lock.Fence(n)
			}
		}
	}
	return c
}

// owner is who takes locks without a session, if it is x.
func owner(name string) lock.Owner {
	if name == "x" {
		return unary
	}
	return lock.Owner(name)
}

// back is a release of what an owner was told.
func (p *player) back(o string, words []string) lock.Return {
	c := p.claim(o, words)
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: p.told[c.Name+" "+o].Fence}
	if c.Owner.Repeats() {
		r.Fence = 0
	}
	if c.Fence != 0 {
		r.Fence = c.Fence
	}
	if next := after(words, "to"); next != "" {
		r.Next = &lock.Successor{Owner: owner(next), TTL: c.TTL}
	}
	return r
}

// call has somebody do something, and compares what that returned with what follows the equals sign: ok if none does.
// What is begun with "begins" is told at "ends".
func (p *player) call(words []string) {
	want := []string{"ok"}
	if at := slices.Index(words, "="); at >= 0 {
		words, want = words[:at], words[at+1:]
	}
	who, s := words[0], p.by(words)
	switch words[1] {
	case "waits":
		p.wait(s, p.claim(who, words))
		return
	case "listens":
		e := p.ear(who)
		p.Cleanup(s.Listen("n", lock.Exclusive, e.noticed))
		return
	case "watches":
		p.hub(s).Watch("n", p.ear(who), 1)
		return
	case "heard":
		p.heard(p.ears[who], words[2:])
		return
	case "begins":
		told := make(chan result, 1)
		p.under[who] = told
		go func() { told <- p.do(s, who, words[2], words) }()
		synctest.Wait()
		return
	}
	begun, fence := time.Now(), p.told["n "+who].Fence
	var got result
	if words[1] == "ends" {
		got = <-p.under[who]
	} else {
		got = p.do(s, who, words[1], words)
	}
	p.took = time.Since(begun)
	p.compare(got, want)
	if hub := p.hubs[s]; hub != nil && slices.Contains(words, "releases") && got.word == "ok" {
		hub.Ended("n", watching.End{Cause: lock.EndReleased, Fence: fence}) // as a broker does
	}
	if got.word == "ok" || got.word == "handed" {
		p.note(got, who, words)
	}
}

// wait makes an attempt now, and another one whenever a release is told.
func (p *player) wait(s *Store, c lock.Claim) {
	try := func() { _, _ = lock.Await(p.Context(), s.StartAcquire, c) }
	p.Cleanup(s.Listen(c.Name, c.Kind, func(n lock.Notice) {
		if n.What == lock.NoticeReleased {
			p.woken.Add(1)
			go try()
		}
	}))
	try()
}

func (p *player) compare(got result, want []string) {
	within := func(limit string, cmp func(a, b time.Duration) bool) bool {
		return after(want, limit) == "" || cmp(got.retry, p.duration(after(want, limit)))
	}
	other := after(want, "by")
	fence := after(want, "fence")
	if want[0] == "any" || want[0] == "failed" && got.word != "ok" && got.word != "handed" {
		return
	}
	if got.word != want[0] || other != "" && string(got.by) != other ||
		!within("<", func(a, b time.Duration) bool { return a <= b }) ||
		!within(">", func(a, b time.Duration) bool { return a >= b }) ||
		fence != "" && fence != "of" && fmt.Sprint(got.fence) != fence ||
		fence == "of" && got.fence != p.told["n "+after(want, "of")].Fence ||
		after(want, "count") != "" && fmt.Sprint(got.count) != after(want, "count") {
		p.wrong("got %+v; told were %+v", got, p.told)
	}
}

// note remembers what was granted: with a greater fence than all before, or with the same one once more.
func (p *player) note(got result, who string, words []string) {
	c := p.claim(who, words)
	switch {
	case slices.Contains(words, "releases") && got.word == "handed":
		delete(p.told, c.Name+" "+who)
		who = after(words, "to")
		c.Owner = owner(who)
	case slices.Contains(words, "releases"):
		delete(p.told, c.Name+" "+who)
		return
	case !slices.Contains(words, "takes"):
		return
	}
	key := c.Name + " " + who
	before, again := p.told[key]
	if slices.Contains(words, "anew") {
		again = false
	}
	if again && got.fence != before.Fence || !again && c.Kind != lock.Read && got.fence <= p.last[c.Name] {
		p.wrong("granted with fence %d; before it was %d, and the last one %d", got.fence, before.Fence, p.last[c.Name])
	}
	c.Fence = got.fence
	p.told[key], p.given[c.Fence] = c, who
	p.last[c.Name] = max(p.last[c.Name], got.fence)
}
