package broker_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/scenariotest"
	"github.com/lockd-io/lockd/internal/session"
)

// TestScenarios plays the scenarios in testdata. testdata/README.md has their words.
func TestScenarios(t *testing.T) {
	scenariotest.Play(t, os.DirFS("testdata"), func(t *testing.T, file string, at int, text string) {
		playForKinds(t, script{file, at, strings.Split(text, "\n")})
	})
}

// playForKinds plays a scenario for each of the kinds, or texts, that it names in its first line, or once.
func playForKinds(t *testing.T, p script) {
	if texts, ok := strings.CutPrefix(p.lines[0], "each "); ok {
		for each := range strings.SplitSeq(texts, " | ") {
			text := strings.ReplaceAll(strings.Join(p.lines[1:], "\n"), "EACH", strings.ReplaceAll(each, " ; ", "\n"))
			t.Run(each, script{p.file, p.at + 1, strings.Split(text, "\n")}.start)
		}
		return
	}
	kinds, ok := strings.CutPrefix(p.lines[0], "kinds ")
	if !ok {
		p.start(t)
		return
	}
	for k := range strings.FieldsSeq(kinds) {
		other := map[string]string{"read": "write", "write": "read"}[k]
		rival := strings.NewReplacer("read", "write").Replace(k)
		text := strings.NewReplacer("KIND", k, "RIVAL", rival, "OTHER", other).Replace(strings.Join(p.lines[1:], "\n"))
		own := script{p.file, p.at + 1, strings.Split(text, "\n")}
		t.Run(k, own.start)
	}
}

// script is some lines of a file.
type script struct {
	file  string
	at    int // the number of the first one
	lines []string
}

// start plays a script in a world of its own, whose limits its first line may say.
func (p script) start(t *testing.T) {
	cfg := testConfig()
	cfg.Replica = "here"
	if limits, ok := strings.CutPrefix(p.lines[0], "limits "); ok {
		for pair := range slices.Chunk(strings.Fields(limits), 2) {
			n, err := strconv.Atoi(pair[1])
			must(t, err)
			*map[string]*int{
				"locks": &cfg.Limits.LocksPerSession, "waiters": &cfg.Limits.WaitersPerSession,
				"watches": &cfg.Limits.WatchesPerSession, "queue": &cfg.Limits.QueueLength, "handoffs": &cfg.HandoffBurst,
				"sessions": &cfg.Limits.Sessions,
			}[pair[0]] = n
		}
		p.lines[0] = ""
	}
	inWorldWith(t, cfg, func(w *world) {
		s := newScenario(w)
		s.play(p)
		s.done()
	})
}

// scenario is one being played.
type scenario struct {
	*world
	at       string // the line
	replicas map[string]*world
	clients  []*player
	byName   map[string]*player
	callers  map[string]*caller
	fences   map[string]lock.Fence      // the last of each name
	before   map[string]lock.Fence      // the same before the line
	until    map[session.Hold]time.Time // what was told last
	said     []string                   // and not expected yet
}

func newScenario(w *world) *scenario {
	return &scenario{
		world: w, replicas: map[string]*world{"here": w, "store": w}, byName: make(map[string]*player),
		callers: make(map[string]*caller),
		fences:  make(map[string]lock.Fence), until: make(map[session.Hold]time.Time),
	}
}

func (s *scenario) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s: %s", s.at, fmt.Sprintf(format, args...))
}

func (s *scenario) check(err error) {
	s.t.Helper()
	if err != nil {
		s.fatalf("%v", err)
	}
}

// play does what the lines say, one after the other. The lines with > after a line are what is said then, in order.
func (s *scenario) play(p script) {
	for i := 0; i < len(p.lines); i++ {
		words := strings.Fields(p.lines[i])
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case words[0] == "repeat":
			n := slices.Index(p.lines[i:], "end")
			for range s.number(words[1]) {
				s.play(script{p.file, p.at + i + 1, p.lines[i+1 : i+n]})
			}
			i += n
		case p.lines[i] == "> ...":
			s.said = nil
		case words[0] == "~>":
			want := strings.Join(words[1:], " ") + " "
			at := slices.IndexFunc(s.said, func(said string) bool { return strings.HasPrefix(said+" ", want) })
			if at < 0 {
				s.fatalf("want %q among %q", want, s.said)
			}
			s.said = slices.Delete(s.said, at, at+1)
		case words[0] == ">":
			if want := strings.Join(words[1:], " "); len(s.said) == 0 || !strings.HasPrefix(s.said[0]+" ", want+" ") {
				s.fatalf("want %q, got %q", want, s.said)
			}
			s.said = s.said[1:]
		default:
			s.done()
			s.at = fmt.Sprintf("%s:%d: %s", p.file, p.at+i, p.lines[i])
			s.do(words[0], words[1:])
			s.hear()
		}
	}
}

// done checks that all was expected that was said.
func (s *scenario) done() {
	if len(s.said) > 0 {
		s.fatalf("nobody expects %q", s.said)
	}
}

func (s *scenario) say(format string, args ...any) {
	s.said = append(s.said, fmt.Sprintf(format, args...))
}

func (s *scenario) number(word string) int {
	n, err := strconv.Atoi(word)
	s.check(err)
	return n
}

func (s *scenario) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	s.check(err)
	return d
}

func (s *scenario) kind(word string) (k lock.Kind, ok bool) {
	at := slices.IndexFunc(allKinds, func(k lock.Kind) bool { return k.String() == word })
	if at < 0 {
		return 0, false
	}
	return allKinds[at], true
}

// do carries out a line.
func (s *scenario) do(what string, words []string) {
	switch c := s.byName[what]; {
	case c != nil:
		s.request(c, words[0], words[1:])
	case s.callers[what] != nil:
		s.call(s.callers[what], words[0], words[1:])
	case what == "sleep":
		time.Sleep(s.duration(words[0]))
	case s.isFault(words):
		s.fault(s.replica(what), words)
	case slices.Contains([]string{"here", "there", "third"}, what) && words[0] == "resumes":
		s.resumes(s.replica(what), s.byName[words[1]])
	case slices.Contains([]string{"here", "there", "third"}, what):
		s.open(s.replica(what), words)
	default:
		s.ask(what, words)
	}
}

// replica is one with a way to the store that can be broken.
func (s *scenario) replica(name string) *world {
	if s.replicas[name] == nil {
		cfg := s.cfg
		cfg.Replica = name
		s.replicas[name] = start(s.t, cfg, &faults{Store: s.store})
	}
	return s.replicas[name]
}

// open opens sessions of a replica, of which the first words say how.
func (s *scenario) open(w *world, names []string) {
	if names[0] == "caller" {
		s.addCaller(w, names[1])
		return
	}
	beats, how := true, session.OpenRequest{}
	for ; ; names = names[1:] {
		switch names[0] {
		case "silent":
			beats = false
			continue
		case "leaving":
			how.ComesBack = true
			continue
		case "releasing":
			how.ReleaseOnEnd = true
			continue
		case "failing":
			how.FailsInDeadlock = true
			continue
		case "ttl":
			how.TTL, names = s.duration(names[1]), names[1:]
			continue
		}
		break
	}
	for _, name := range names {
		if how.FailsInDeadlock {
			how.Actor = name
		}
		how.Client = session.Client{Name: name, Peer: name + ":1", Labels: map[string]string{"name": name}}
		opened, err := w.b.Open(how)
		if err != nil {
			s.say("%s fails %s", name, failureOf(err))
			continue
		}
		c := &player{
			client: &client{Session: opened, t: s.t}, name: name, epoch: 1, stop: func() {},
			takes: make(map[uint64]request.Acquire), leaves: make(map[uint64]session.Hold), heard: make(map[string]bool),
		}
		if beats {
			c.stop = c.beats()
		}
		s.t.Cleanup(func() { c.stop() })
		s.clients, s.byName[name] = append(s.clients, c), c
	}
}

// resumes has a session go on at a replica, with what its client believes to hold.
func (s *scenario) resumes(w *world, c *player) {
	c.stop()
	c.epoch++
	req := c.resumption(c.epoch, slices.Clone(c.holds))
	req.Client = c.Client()
	back, lost, err := w.b.Resume(s.t.Context(), req)
	if err != nil {
		s.say("%s fails %s", c.name, failureOf(err))
		return
	}
	c.before = c.client
	c.client = &client{Session: back, t: s.t, lastID: c.lastID}
	c.stop = c.beats()
	text := " resumes"
	for _, h := range back.Resumed() {
		text += " " + h.Hold.Name
	}
	s.say("%s%s", c.name, text)
	for _, l := range lost {
		s.say("%s %s", c.name, s.text(c, l))
	}
}

var storeVerbs = map[string][]string{
	"acquire": {"Acquire", "AcquireAll"}, "single": {"Acquire"}, "several": {"AcquireAll"},
	"release": {"Release"}, "extend": {"Extend"}, "shorten": {"Shorten"},
	"enlist": {"Enlist"}, "look": {"Look"}, "renew": {"Renew"}, "succeed": {"Succeed"}, "record": {"KeepSession"},
}

// isFault says whether the words after the name of a replica are about its way to the store.
func (s *scenario) isFault(words []string) bool {
	return len(words) > 0 && (storeVerbs[words[0]] != nil ||
		slices.Contains([]string{"down", "up", "well", "deaf", "hears", "forgets", "expires", "loses"}, words[0]))
}

// fault has the way of a replica to the store fail. The way of the first one is the way of all.
func (s *scenario) fault(w *world, words []string) {
	switch words[0] {
	case "down":
		w.store.setDown(s.failure(words[1:]))
	case "up":
		w.store.setDown(nil)
	case "well":
		w.store.well()
	case "deaf":
		w.store.setDeaf(true)
		w.store.tell(lock.Notice{What: lock.NoticeDeaf})
	case "hears":
		w.store.setDeaf(false)
		w.store.tell(lock.Notice{What: lock.NoticeListening})
	case "forgets": // everything
		s.lose()
	case "expires":
		s.store.Store.(*memstore.Store).Expire(words[1])
	case "loses": // N replies of a verb
		for _, verb := range storeVerbs[words[len(words)-1]] {
			w.store.on(verb, lose(s.number(words[1]), 0))
		}
	default:
		for _, verb := range storeVerbs[words[0]] {
			if hook := s.fate(words[1:]); words[1] == "late" || words[1] == "afterwards" {
				w.store.inOrder(verb, hook)
			} else {
				w.store.onCall(verb, hook)
			}
		}
	}
}

// failure is an error that is said, or that the store is not reached.
func (s *scenario) failure(words []string) error {
	for _, f := range failures {
		if len(words) > 0 && f.word == words[0] {
			return f.error
		}
	}
	return lock.ErrUnavailable
}

func (s *scenario) fate(words []string) func(call) error {
	switch words[0] {
	case "late":
		return late(s.duration(words[1]))
	case "slow":
		return plainly(slow(s.duration(words[1])))
	case "afterwards":
		n := 1
		if len(words) > 2 { // times
			n = s.number(words[2])
		}
		return afterwards(n, s.duration(words[1]))
	case "fails":
		d := time.Duration(0)
		if len(words) > 2 {
			d = s.duration(words[2])
		}
		return plainly(fails(s.failure(words[1:]), d))
	case "hidden": // done, and nobody hears of it
		n, d := 1<<20, time.Duration(0)
		if len(words) > 2 { // after a while, times
			n, d = s.number(words[2]), s.duration(words[1])
		}
		return plainly(lose(n, d))
	default:
		s.fatalf("no such fault")
		return nil
	}
}

// ask asks the replicas, or the store.
func (s *scenario) ask(what string, words []string) {
	switch what {
	case "look":
		s.look(words[0])
	case "ttl":
		s.ttl(words)
	case "queue":
		all, err := s.store.Queue(s.t.Context(), words[0], 100)
		s.check(err)
		if info, err := s.b.Lock(s.t.Context(), words[0]); err != nil || int(info.Queued) != len(all) {
			s.fatalf("shown as %+v, %v", info, err)
		}
		s.say("%d queue", len(all))
	case "waiters":
		s.waiters(words[0])
	case "leases":
		kinds := ""
		for _, l := range s.b.Leases(words[0], "", 10) {
			kinds += " " + l.Holder.Kind.String()
			if l.Holder.Permits > 0 {
				kinds += fmt.Sprint(" ", l.Holder.Permits)
			}
		}
		s.say("leases%s", kinds)
	case "force":
		k, _ := s.kind(words[1])
		freed, err := s.b.ForceRelease(s.t.Context(), words[0], k)
		s.check(err)
		s.say("forced %v", freed)
	case "inspect":
		most := 100
		if len(words) > 1 {
			most = s.number(words[1])
		}
		s.inspect(words[0], most)
	case "list":
		s.list(words[0], words[1:])
	case "history":
		s.history(words[0])
	case "busiest":
		s.busiest(words[0])
	case "stranger":
		s.stranger(words)
	case "drop":
		s.drop(words[0])
	case "announce":
		s.announce(words)
	case "metric":
		s.say("%v", s.metric(words[0]))
	case "ready":
		s.say("ready %t", s.b.Ready() == nil)
	case "nothing":
		s.nothingRemains()
	case "attempts", "looks", "releases", "renewals":
		count := map[string]*atomic.Int64{
			"attempts": &s.store.acquires, "looks": &s.store.looks, "releases": &s.store.releases,
			"renewals": &s.store.renewals,
		}[what]
		if n := count.Swap(0); len(words) > 0 && n > int64(s.number(words[2])) { // at most
			s.fatalf("%d %s were made", n, what)
		}
	default:
		s.fatalf("nobody knows %s", what)
	}
}
