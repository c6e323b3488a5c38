package arbiter

import (
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
)

func TestScenes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenes", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			newScript().play(t, strings.Split(string(text), "\n"))
		})
	}
}

// script plays a file. testdata/README.md has its words.
type script struct {
	*scene
	next map[string]*request // handed over, by the name of who releases
}

func newScript() *script { return &script{newScene(), map[string]*request{}} }

func (p *script) play(t *testing.T, lines []string) {
	for i, line := range append(lines, "queue of other") {
		p.fatal = func(format string, a ...any) { t.Fatalf("line %d: %s: %s", i+1, line, fmt.Sprintf(format, a...)) }
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == ">":
			if want := strings.Join(words[1:], " "); len(p.said) == 0 || p.said[0] != want {
				p.fatal("got %q", p.said)
			}
			p.said = p.said[1:]
		case len(p.said) > 0:
			p.fatal("before this, nobody expects %q", p.said)
		default:
			p.do(words)
		}
	}
}

func (p *script) do(words []string) {
	switch words[0] {
	case "sleep":
		p.pass(p.duration(words[1]))
	case "notice", "told":
		p.notice(words)
	case "queue":
		for w := range p.of[after(words, "of", "job")].All() {
			p.say("%s %v", w.For.name, stateOf(w))
		}
	case "enlisted":
		p.enlisted(p.of["job"], words[1:], false)
	case "unlisted":
		p.enlisted(p.of["job"], nil, true)
	default:
		p.does(words[0], words[1], words[2:])
	}
}

func (p *script) duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		p.fatal("%v", err)
	}
	return d
}

// after is the word after another one, or else.
func after(words []string, word, other string) string {
	if at := slices.Index(words, word); at >= 0 {
		return words[at+1]
	}
	return other
}

func (p *script) does(who, what string, words []string) {
	r := p.ws[who]
	if r == nil && what != "arrives" {
		p.fatal("nobody knows %s of %q", who, slices.Collect(maps.Keys(p.ws)))
	}
	switch what {
	case "arrives":
		p.arrive(p.request(who, words))
	case "leaves":
		p.leave(r)
		p.drive(r.q)
	case "granted":
		p.answered(r, nil)
	case "held":
		ahead, _ := strconv.Atoi(after(words, "ahead", "0"))
		p.answered(r, &lock.HeldError{
			Name: after(words, "of", ""), RetryAfter: p.duration(after(words, "for", "30s")),
			HeldBy: lock.Owner(after(words, "by", "elsewhere")), Ahead: ahead,
		})
	case "unavailable":
		p.answered(r, lock.ErrUnavailable)
	case "unknown":
		p.answered(r, lock.ErrOutcomeUnknown)
	case "invalid":
		p.answered(r, lock.ErrInvalid)
	case "releases":
		p.next[who] = p.release(r)
	case "released":
		r.freed.Turn = lock.Owner(after(words, "turn", ""))
		r.freed.Listeners, _ = strconv.Atoi(after(words, "heard", "0"))
		p.released(r, p.next[who], slices.Contains(words, "handed"))
	default:
		p.fatal("nobody knows %s", what)
	}
}

func (p *script) request(name string, words []string) *request {
	r := &request{name: name, q: p.of[after(words, "at", "job")]}
	r.Wait, r.Claim.Kind = Forever, lock.Exclusive
	for _, k := range lock.Kinds() {
		if slices.Contains(words, k.String()) {
			r.Claim.Kind = k
		}
	}
	if slices.Contains(words, "try") {
		r.Wait = 0
	}
	if wait := after(words, "wait", ""); wait != "" {
		r.Wait = p.duration(wait)
	}
	permits, _ := strconv.Atoi(after(words, "permits", "0"))
	r.Claim.Permits = uint32(permits) //nolint:gosec // small
	r.Several = slices.Contains(words, "several")
	return r
}

func (p *script) notice(words []string) {
	q := p.of["job"]
	n := lock.Notice{For: lock.Owner(after(words, "for", "")), After: p.duration(after(words, "after", "0s"))}
	for what, word := range map[lock.What]string{
		lock.NoticeReleased: "released", lock.NoticeTurn: "turn", lock.NoticeDeaf: "deaf", lock.NoticeListening: "listening",
	} {
		if slices.Contains(words, word) {
			n.What = what
		}
	}
	if words[0] == "told" {
		q.HeardTurn(lock.Owner(words[1]), n)
	} else {
		q.Heard(n, p.now)
	}
	p.drive(q)
}

// stateOf is how far a request has come, in the words of the scenes.
func stateOf[R any](w *Waiter[R]) string {
	switch {
	case w.Answered() && w.Asking():
		return "left"
	case w.Answered():
		return "gone"
	case w.Waits() && w.Asking():
		return "retrying"
	case w.Waits():
		return "parked"
	case w.Asking():
		return "trying"
	}
	return "fresh"
}
