package broker_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// TestScenarios plays the scenarios in testdata. testdata/README.md has their words.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := 1
		for i, part := range strings.Split(string(text), "\n== ") {
			title, body, _ := strings.Cut(part, "\n")
			if i > 0 {
				t.Run(title, func(t *testing.T) { playForKinds(t, script{file, at + 1, strings.Split(body, "\n")}) })
			}
			at += strings.Count(part, "\n") + 1
		}
	}
}

// playForKinds plays a scenario for each of the kinds that it names in its first line, or once.
func playForKinds(t *testing.T, p script) {
	kinds, ok := strings.CutPrefix(p.lines[0], "kinds ")
	if !ok {
		inWorld(t, p.play)
		return
	}
	for k := range strings.FieldsSeq(kinds) {
		other := map[string]string{"read": "write", "write": "read"}[k]
		rival := strings.NewReplacer("read", "write").Replace(k)
		text := strings.NewReplacer("KIND", k, "RIVAL", rival, "OTHER", other).Replace(strings.Join(p.lines[1:], "\n"))
		own := script{p.file, p.at + 1, strings.Split(text, "\n")}
		t.Run(k, func(t *testing.T) { inWorld(t, own.play) })
	}
}

// script is some lines of a file.
type script struct {
	file  string
	at    int // the number of the first one
	lines []string
}

func (p script) play(w *world) {
	s := newScenario(w)
	s.play(p)
	s.done()
}

// scenario is one being played.
type scenario struct {
	*world
	at       string // the line
	replicas map[string]*world
	clients  []*client
	names    map[*client]string
	byName   map[string]*client
	holds    map[*client][]session.Hold // all it ever had
	fences   map[string]lock.Fence      // the last of each name
	before   map[string]lock.Fence      // the same before the line
	until    map[session.Hold]time.Time // what was told last
	asked    map[*client]uint64         // its last Acquire
	said     []string                   // and not expected yet
}

func newScenario(w *world) *scenario {
	return &scenario{
		world: w, replicas: map[string]*world{"here": w, "store": w}, names: make(map[*client]string),
		byName: make(map[string]*client), holds: make(map[*client][]session.Hold), fences: make(map[string]lock.Fence),
		asked: make(map[*client]uint64), until: make(map[session.Hold]time.Time),
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
	case what == "sleep":
		time.Sleep(s.duration(words[0]))
	case slices.Contains([]string{"here", "there", "third"}, what) && words[0] != "down" && words[0] != "up":
		s.open(s.replica(what), words)
	case s.replicas[what] != nil:
		s.fault(s.replicas[what], words)
	default:
		s.ask(what, words)
	}
}

// replica is one with a way to the store that can be broken.
func (s *scenario) replica(name string) *world {
	if s.replicas[name] == nil {
		w, store := s.severable()
		w.store = store
		s.replicas[name] = w
	}
	return s.replicas[name]
}

func (s *scenario) open(w *world, names []string) {
	opened := w.alive
	if names[0] == "silent" {
		opened, names = w.open, names[1:]
	}
	for _, name := range names {
		c := opened()
		s.clients, s.names[c], s.byName[name] = append(s.clients, c), name, c
	}
}

// fault has the way of a replica to the store fail. That of the first one is that of all.
func (s *scenario) fault(w *world, words []string) {
	switch line := strings.Join(words, " "); words[0] {
	case "down":
		w.store.setDown(lock.ErrUnavailable)
	case "up":
		w.store.setDown(nil)
	case "forgets": // everything
		s.lose()
	case "expires":
		s.store.Store.(*memstore.Store).Expire(words[1])
	case "loses": // N replies of acquire or release
		if n := s.number(words[1]); words[len(words)-1] == "acquire" {
			w.store.on("Acquire", lose(n))
		} else {
			w.store.on("Release", lose(n))
		}
	case "answers": // acquires D late
		w.store.on("Acquire", slow(s.duration(words[2])))
	default:
		s.fatalf("no such fault: %s", line)
	}
}

// hear has each session say what it was told.
func (s *scenario) hear() {
	s.before = maps.Clone(s.fences)
	for _, c := range s.clients {
		for _, e := range c.events() {
			if text := s.text(c, e); text != "" {
				s.say("%s %s", s.names[c], text)
			}
		}
	}
}

func (s *scenario) text(c *client, e session.Event) string {
	switch e := e.(type) {
	case session.Granted:
		return s.granted(c, e)
	case session.Queued:
		return fmt.Sprint("queued ", e.Position)
	case session.NotGranted:
		words := map[error]string{lock.ErrHeld: "held", session.ErrTimedOut: "timed out", session.ErrCancelled: "cancelled"}
		text := words[leaf(e.Cause)]
		return strings.TrimSpace(text + " " + e.Name)
	case session.Released:
		return strings.TrimSuffix(fmt.Sprint("released, keeps ", e.Remaining), ", keeps 0")
	case session.Extended:
		return "extended"
	case session.Lost:
		return fmt.Sprint("lost ", e.Hold.Name, " ", e.Reason)
	case session.Unlocked:
		return fmt.Sprint("hears ", e.Name)
	case session.Done:
		return "done"
	case session.HeartbeatAck:
		return ""
	case session.Failed:
		if limit, ok := errors.AsType[*lock.LimitError](e.Err); ok {
			return fmt.Sprint("failed limit ", limit.Limit)
		}
		return "failed " + failures[leaf(e.Err)]
	default:
		return fmt.Sprintf("%T", e)
	}
}

var failures = map[error]string{
	lock.ErrNotHeld: "not held", lock.ErrStale: "stale", lock.ErrUnavailable: "unavailable",
	lock.ErrOutcomeUnknown: "unknown", lock.ErrInvalid: "invalid", session.ErrUpgrade: "upgrade",
}

// leaf is the sentinel that an error wraps.
func leaf(err error) error {
	for _, known := range []error{lock.ErrHeld, session.ErrTimedOut, session.ErrCancelled} {
		if isError(err, known) {
			return known
		}
	}
	for known := range failures {
		if isError(err, known) {
			return known
		}
	}
	return err
}

// granted takes note of a grant. Its fence is greater than all before, but that of a hold that is counted up.
func (s *scenario) granted(c *client, e session.Granted) string {
	text := "granted"
	for _, h := range append([]session.Hold{e.Hold}, e.More...) {
		last := s.fences[h.Name]
		if h.Kind.Shared() { // several may be granted at once
			last = s.before[h.Name]
		}
		if e.Count == 1 && h.Fence <= last {
			s.fatalf("%q is granted with fence %d after %d", h.Name, h.Fence, last)
		}
		s.fences[h.Name] = max(s.fences[h.Name], h.Fence)
		s.holds[c] = append(s.holds[c], h)
		text += " " + h.Name
	}
	if !e.Validity.Until.After(time.Now()) {
		s.fatalf("granted %v after its end", time.Since(e.Validity.Until))
	}
	if e.Validity.Until.Before(s.until[e.Hold]) && e.Hold.Kind != lock.Read { // each read hold has a lease of its own
		s.fatalf("its validity was %v, and is %v", s.until[e.Hold], e.Validity.Until)
	}
	s.until[e.Hold] = e.Validity.Until
	if e.Count > 1 {
		text += fmt.Sprint(" count ", e.Count)
	}
	return text
}

// request has a session ask for something.
func (s *scenario) request(c *client, verb string, words []string) {
	switch verb {
	case "acquire":
		s.asked[c] = c.acquire(s.acquireRequest(words))
	case "cancel":
		c.Cancel(c.id(), s.asked[c])
	case "release":
		c.Release(c.id(), s.hold(c, words))
	case "extend":
		c.Extend(c.id(), request.Extend{Hold: s.hold(c, words[:1]), Lease: new(s.duration(words[2]))})
	case "watch":
		c.watch(words[0])
	case "unwatch":
		c.Unwatch(c.id(), words[0])
	case "breaks":
		c.End(errors.New("broken"))
	case "goodbye":
		c.Goodbye()
	default:
		s.fatalf("nobody knows %s", verb)
	}
}

func (s *scenario) acquireRequest(words []string) request.Acquire {
	names, kind := strings.Split(words[0], "+"), lock.Exclusive
	if len(words) > 1 {
		if k, ok := s.kind(words[1]); ok {
			kind = k
			words = words[1:]
		}
	}
	req := allOf(kind, names...)
	for i := 1; i < len(words); i++ {
		if words[i] == "try" {
			req.Wait = new(time.Duration)
			continue
		}
		value := words[i+1]
		switch words[i] {
		case "wait":
			req.Wait = new(s.duration(value))
		case "lease":
			req.Lease = new(s.duration(value))
		case "holder":
			req.Holder = value
		case "permits":
			req.Permits = uint32(s.number(value)) //nolint:gosec // small
		case "of":
			req.Limit = uint32(s.number(value)) //nolint:gosec // small
		default:
			s.fatalf("nobody knows %s", words[i])
		}
		i++
	}
	return req
}

// hold is the last one of a name that a session had, of a kind if that is said; or that another one had. If there was
// none it is made up.
func (s *scenario) hold(c *client, words []string) (h session.Hold) {
	h.Name, h.Kind = words[0], lock.Exclusive
	k, ok := lock.Kind(0), false
	if len(words) > 1 {
		if k, ok = s.kind(words[1]); ok {
			h.Kind = k
		} else {
			c = s.byName[words[2]] // of
		}
	}
	for _, had := range s.holds[c] {
		if had.Name == words[0] && (!ok || had.Kind == k) {
			h = had
		}
	}
	if at := slices.Index(words, "holder"); at > 0 {
		h.Holder = words[at+1]
	}
	return h
}

// ask asks the replicas, or the store.
func (s *scenario) ask(what string, words []string) {
	switch what {
	case "look":
		s.look(words[0])
	case "ttl":
		s.ttl(words)
	case "queue":
		all, err := s.store.Queue(s.t.Context(), words[0], 0, 100)
		s.check(err)
		s.say("%d queue", len(all))
	case "waiters":
		s.waiters(words[0])
	case "leases":
		kinds := ""
		for _, l := range s.b.Leases(words[0], "", 10) {
			kinds += " " + l.Hold.Kind.String()
			if l.Permits > 0 {
				kinds += fmt.Sprint(" ", l.Permits)
			}
		}
		s.say("leases%s", kinds)
	case "force":
		k, _ := s.kind(words[1])
		freed, err := s.b.ForceRelease(s.t.Context(), words[0], k)
		s.check(err)
		s.say("forced %v", freed)
	case "attempts":
		if n := s.store.acquires.Swap(0); len(words) > 0 && n > int64(s.number(words[2])) { // at most
			s.fatalf("%d attempts were made", n)
		}
	default:
		s.fatalf("nobody knows %s", what)
	}
}

// look says what all replicas show of a name.
func (s *scenario) look(name string) {
	var all []string
	for _, w := range s.replicas {
		i, err := w.b.Lock(s.t.Context(), name)
		s.check(err)
		text := "free"
		if i.Held {
			text = "held"
		}
		for _, c := range s.clients {
			if strings.HasPrefix(string(i.Owner), c.ID()+":") {
				text += fmt.Sprintf(" by %s count %d kind %v", s.names[c], i.Count, i.Kind)
			}
		}
		if i.Limit > 0 {
			text += fmt.Sprintf(" %d of %d", i.Holders, i.Limit)
		}
		if i.Held && i.Owner != "" && i.Fence != s.fences[name] && i.Kind != lock.Read {
			text += fmt.Sprintf(" fence %d, not %d", i.Fence, s.fences[name])
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	s.say("%s %s", name, strings.Join(all, " or "))
}

// ttl says for how long a name is held yet, or checks that this is more than something.
func (s *scenario) ttl(words []string) {
	for n, w := range s.replicas {
		i, err := w.b.Lock(s.t.Context(), words[0])
		s.check(err)
		switch {
		case len(words) > 1 && i.TTL <= s.duration(words[2]): // over
			s.fatalf("%v remain", i.TTL)
		case len(words) == 1 && n == "here":
			s.say("%v", i.TTL)
		}
	}
}

func (s *scenario) waiters(name string) {
	all, _, err := s.b.Waiters(s.t.Context(), name, 0, 100)
	s.check(err)
	text := ""
	for _, i := range all {
		for _, c := range s.clients {
			if i.Session == c.ID() {
				text += fmt.Sprintf(" %s %d", s.names[c], i.Position)
			}
		}
	}
	s.say("waiters%s", text)
}
