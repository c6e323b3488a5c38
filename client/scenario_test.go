package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/scenariotest"
)

// TestScenarios plays the scenarios in testdata. testdata/README.md has their words.
func TestScenarios(t *testing.T) {
	scenariotest.Play(t, os.DirFS("testdata"), func(t *testing.T, _ string, _ int, body string) {
		texts, each := strings.CutPrefix(body, "each ")
		if !each {
			play(t, body)
			return
		}
		texts, body, _ = strings.Cut(texts, "\n")
		for text := range strings.SplitSeq(texts, " | ") {
			t.Run(text, func(t *testing.T) { play(t, strings.ReplaceAll(body, "EACH", text)) })
		}
	})
}

// scenario is one being played.
type scenario struct {
	t       *testing.T
	f       *fake
	begun   time.Time
	line    string
	heard   []saying // because of the line, and not expected yet
	clients map[string]*client.Client
	dials   int // told so far

	mu    sync.Mutex // guards the fields below
	said  []saying
	held  map[string]held
	fates map[string][]string
	later []func()
}

// saying is what was said by somebody.
type saying struct {
	at       time.Duration
	by, what string
}

// held is a Lock, or Locks.
type held interface {
	Err() error
	Deadline() time.Time
	ValidFor() time.Duration
	Context() context.Context
	Lost() <-chan struct{}
	Unlock(ctx context.Context) error
}

// play plays a scenario in a bubble of its own.
func play(t *testing.T, text string) {
	lines, ttl := strings.Split(strings.ReplaceAll(text, "LONG", strings.Repeat("n", 500)), "\n"), 30*time.Second
	if word, ok := strings.CutPrefix(lines[0], "ttl "); ok {
		ttl, _ = time.ParseDuration(word)
		lines[0] = ""
	}
	bubble(t, ttl, func(t *testing.T, f *fake) {
		s := &scenario{
			t: t, f: f, begun: time.Now(), clients: make(map[string]*client.Client), held: make(map[string]held),
			fates: make(map[string][]string),
		}
		f.setHook(s.hook)
		s.play(lines)
		s.done()
	})
}

func (s *scenario) play(lines []string) {
	for i := 0; i < len(lines); i++ {
		words := strings.Fields(lines[i])
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "repeat":
			n := slices.Index(lines[i:], "end")
			for range s.number(words[1]) {
				s.play(lines[i+1 : i+n])
			}
			i += n
		case words[0] == ">":
			if len(s.heard) == 0 || !strings.HasPrefix(s.heard[0].String()+" ", strings.Join(words[1:], " ")+" ") {
				s.t.Fatalf("%s: want %q, got %q", s.line, lines[i], s.heard)
			}
			s.heard = s.heard[1:]
		default:
			s.done()
			s.line = lines[i]
			s.do(words[0], words[1:])
			synctest.Wait()
			s.hear()
		}
	}
}

// hear takes what was said, by time and by who said it.
func (s *scenario) hear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.said = s.said, nil
	slices.SortStableFunc(s.heard, func(a, b saying) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by))
	})
}

// done checks that all was expected that was said.
func (s *scenario) done() {
	if len(s.heard) > 0 {
		s.t.Fatalf("%s: nobody expects %q", s.line, s.heard)
	}
}

func (m saying) String() string {
	return fmt.Sprintf("%s %s at %v", m.by, m.what, m.at)
}

func (s *scenario) say(by, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, saying{time.Since(s.begun).Round(time.Millisecond), by, fmt.Sprintf(format, args...)})
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

func (s *scenario) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Errorf("%s: %v", s.line, err) // perhaps on a goroutine of the server
	}
}

var errUnwanted = errors.New("no longer wanted")

var errWords = map[string]error{
	"held": client.ErrHeld, "timed-out": client.ErrTimedOut, "cancelled": client.ErrCancelled,
	"not-held": client.ErrNotHeld, "stale": client.ErrStale, "auto-lease": client.ErrAutoLease, "lost": client.ErrLost,
	"unknown": client.ErrOutcomeUnknown, "unlocked": client.ErrUnlocked, "unavailable": client.ErrUnavailable,
	"kind-mismatch": client.ErrKindMismatch, "limit-mismatch": client.ErrLimitMismatch, "upgrade": client.ErrUpgrade,
	"store-full": client.ErrStoreFull, "session-expired": client.ErrSessionExpired, "superseded": client.ErrSuperseded,
	"silent": client.ErrSilent, "backlog": client.ErrBacklog, "invalid": client.ErrInvalid, "quota": client.ErrQuota,
	"denied": client.ErrDenied, "forbidden": client.ErrForbidden, "unauthenticated": client.ErrUnauthenticated,
	"closed": client.ErrClosed, "canceled": context.Canceled,
	"deadline": context.DeadlineExceeded, "unwanted": errUnwanted,
}

// wordsOf are those of all that an error is, in the order of the alphabet, or its text.
func wordsOf(err error) string {
	var words []string
	for word, is := range errWords {
		if errors.Is(err, is) {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return cmp.Or(client.Reason(err), err.Error())
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// call does what a program asks, and says what came of it.
func (s *scenario) call(by string, does func() (string, error)) {
	go func() {
		text, err := does()
		if err != nil {
			text = "fails " + wordsOf(err)
		}
		if text != "" {
			s.say(by, "%s", text)
		}
	}()
}

// do carries out a line.
func (s *scenario) do(what string, words []string) {
	s.mu.Lock()
	h := s.held[what]
	s.mu.Unlock()
	switch {
	case s.clients[what] != nil:
		s.ask(what, words[0], words[1:])
	case h != nil:
		s.use(what, h, words[0], words[1:])
	case what == "dial":
		s.dial(words)
	case what == "sleep":
		time.Sleep(s.duration(words[0]))
	case what == "on":
		s.mu.Lock()
		s.fates[words[0]] = words[1:]
		s.mu.Unlock()
	default:
		s.serve(what, words)
	}
}

// dial makes a client: a name, perhaps an address, and options.
func (s *scenario) dial(words []string) {
	name, at, told := words[0], "passthrough:fake", 0
	opts := []client.Option{client.WithOnStatus(func(st client.Status) {
		if st.State == client.Connected && st.Session == "" {
			s.t.Errorf("%s is told to be connected, and not which session it has", name)
		}
		if told++; told == 1 { // it is connected
			return
		}
		text := string(st.State)
		if st.State == client.AtRisk {
			text += fmt.Sprint(" ", st.ValidFor)
		}
		if st.Err != nil {
			text += " " + wordsOf(st.Err)
		}
		s.say(name, "%s", text)
	})}
	for pair := range slices.Chunk(words[1:], 2) {
		switch pair[0] {
		case "at":
			at = strings.NewReplacer("A", addrA, "B", addrB).Replace(pair[1])
		case "answers":
			opts = append(opts, client.WithAnswerTimeout(s.duration(pair[1])))
		case "connects":
			opts = append(opts, client.WithConnectWait(s.duration(pair[1])))
		case "breaks": // and is released then
			opts = append(opts, client.WithReleaseOnDisconnect())
		}
	}
	s.clients[name] = s.f.dialAt(s.t, at, opts...)
}

// context is that of a call: it ends within some time, or is cancelled after it, if the words say so.
func (s *scenario) context(words []string) (ctx context.Context, rest []string) {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	s.t.Cleanup(func() { cancel(nil) })
	after, words := take("cancel", words)
	if after != "" {
		time.AfterFunc(s.duration(after), func() { cancel(errUnwanted) })
	}
	within, words := take("within", words)
	if within != "" {
		timed, stop := context.WithTimeout(ctx, s.duration(within))
		s.t.Cleanup(stop)
		return timed, words
	}
	return ctx, words
}

// take takes a word and the one that follows it out of others.
func take(word string, words []string) (value string, rest []string) {
	n := slices.Index(words, word)
	if n < 0 {
		return "", words
	}
	return words[n+1], slices.Concat(words[:n], words[n+2:])
}

// lockOptions are those of a request.
func (s *scenario) lockOptions(name string, words []string) (opts []client.LockOption) {
	for pair := range slices.Chunk(words, 2) {
		switch pair[0] {
		case "wait":
			opts = append(opts, client.Wait(s.duration(pair[1])))
		case "lease":
			opts = append(opts, client.Lease(s.duration(pair[1])))
		case "holder":
			opts = append(opts, client.Holder(pair[1]))
		case "kind":
			opts = append(opts, client.As(items("n:" + pair[1])[0].Kind))
		case "note":
			opts = append(opts, client.Annotation(pair[1]))
		case "permits":
			n := uint32(s.number(pair[1]))
			opts = append(opts, client.Permits(n, n))
		case "queued":
			opts = append(opts, client.OnQueued(func(position int) { s.say(name, "queued %d", position) }))
		default:
			s.t.Fatalf("%s: no such option", s.line)
		}
	}
	return opts
}

// ask has a client do something about a name.
func (s *scenario) ask(by, verb string, words []string) {
	c, name := s.clients[by], ""
	if len(words) > 0 {
		name, words = words[0], words[1:]
	}
	as, words := take("as", words)
	by = cmp.Or(as, name, by)
	ctx, words := s.context(words)
	does := map[string]func() (string, error){
		"lock":  func() (string, error) { return s.lock(ctx, c.Lock, c.LockAll, by, name, words) },
		"try":   func() (string, error) { return s.lock(ctx, c.TryLock, c.TryLockAll, by, name, words) },
		"watch": func() (string, error) { return "", s.watch(ctx, c, name, by) },
		"look": func() (string, error) {
			info, err := c.Look(ctx, name)
			return "look " + info.Name, err
		},
		"limit": func() (string, error) {
			n, err := c.SetLimit(ctx, name, 3)
			return fmt.Sprint("limit ", n), err
		},
		"holds": func() (text string, err error) {
			all, err := holds(c, name)
			for _, h := range all {
				text += fmt.Sprintf(" %s %v", h.Name, time.Until(h.Deadline))
			}
			return "holds" + text, err
		},
		"close": func() (string, error) { return "close ok", c.Close() },
		"stop":  func() (string, error) { c.StopAlarms(); return "stopped", nil }, // as if its process was
	}[verb]
	if does == nil {
		s.t.Fatalf("%s: a client does not %s", s.line, verb)
	}
	s.call(by, does)
}

// lock takes a lock, or several if there are commas in the name.
func (s *scenario) lock(ctx context.Context,
	one func(context.Context, string, ...client.LockOption) (*client.Lock, error),
	several func(context.Context, []client.Item, ...client.LockOption) (*client.Locks, error),
	as, name string, words []string,
) (string, error) {
	opts := s.lockOptions(as, words)
	if !strings.Contains(name, ",") {
		l, err := one(ctx, name, opts...)
		if err != nil {
			return "", err
		}
		s.hold(as, l)
		return fmt.Sprint("granted ", l.Fence()), nil
	}
	ls, err := several(ctx, items(strings.Split(name, ",")...), opts...)
	if err != nil {
		return "", err
	}
	text := "granted"
	for _, l := range ls.All() {
		s.hold(l.Name(), l)
		text += fmt.Sprint(" ", l.Fence())
	}
	s.hold(as, ls)
	return text, nil
}

// hold keeps a lock for later lines, and says when it is lost.
func (s *scenario) hold(as string, h held) {
	s.mu.Lock()
	s.held[as] = h
	s.mu.Unlock()
	go func() {
		<-h.Context().Done()
		lost, ok := errors.AsType[*client.LostError](h.Err())
		if !ok {
			return
		}
		<-h.Lost()
		text := string(lost.Reason)
		if lost.Err != nil {
			text += " " + wordsOf(lost.Err)
		}
		s.say(as, "lost %s", text)
	}()
}

func (s *scenario) watch(ctx context.Context, c *client.Client, name, by string) error {
	events, err := c.Watch(ctx, name)
	if err != nil {
		return err
	}
	s.say(by, "watch ok") // before its first event
	go func() {
		for e := range events {
			text := fmt.Sprintf("unlocked %s %d", e.Cause, e.Fence)
			switch {
			case e.Err != nil:
				text = "refused " + wordsOf(e.Err)
			case e.Gap:
				text = "gap"
			}
			s.say(name, "%s", text)
		}
		s.say(name, "watched no more")
	}()
	return nil
}

// use does something with a lock.
func (s *scenario) use(name string, h held, verb string, words []string) {
	ctx, words := s.context(words)
	d, n := time.Duration(0), 0
	l, _ := h.(*client.Lock)
	switch {
	case verb == "keep":
		n = s.number(words[0])
	case len(words) > 0:
		d = s.duration(words[0])
	}
	does := map[string]func() error{
		"unlock":  func() error { return h.Unlock(ctx) },
		"extend":  func() error { return l.Extend(ctx, d) },
		"shorten": func() error { return l.Shorten(ctx, d) },
		"fix":     func() error { return l.MakeFixed(ctx, d) },
		"auto":    func() error { return l.MakeAuto(ctx) },
		"keep":    func() error { _, err := l.KeepPermits(ctx, uint32(n)); return err },
		"valid":   h.Err,
	}[verb]
	s.call(name, func() (string, error) {
		err := does()
		if verb == "valid" {
			return fmt.Sprint("valid ", min(h.ValidFor(), time.Until(h.Deadline())).Round(time.Millisecond)), err
		}
		return verb + " ok", err
	})
}
