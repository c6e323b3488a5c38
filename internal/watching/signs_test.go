package watching_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// shown is a store that shows and tells what a test says.
type shown struct {
	look time.Duration // for how long one takes after it has seen

	mu     sync.Mutex // guards the fields below
	seen   lock.Seen
	bare   int // Redisson's messages, which are told at a look
	notify func(lock.Notice)
}

func (s *shown) Watch(_ string, notify func(lock.Notice)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = notify
	notify(lock.Notice{What: lock.NoticeListening})
	return func() {}
}

func (s *shown) See(context.Context, string) (lock.Seen, error) {
	s.mu.Lock()
	st := s.seen
	s.mu.Unlock()
	time.Sleep(s.look)
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.bare {
		s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased})
	}
	s.bare = 0
	return st, nil
}

// change has the name held by these from now on.
func (s *shown) change(holds ...lock.SeenHold) {
	s.mu.Lock()
	s.seen.Tracked, s.seen.Holds = true, holds
	for _, h := range holds {
		s.seen.Fence = max(s.seen.Fence, h.Fence)
	}
	s.mu.Unlock()
	s.says(lock.Notice{What: lock.NoticeChanged})
}

func (s *shown) says(n lock.Notice) { s.notify(n) }

// fence is that of lockd's hold.
const fence = 7

// holds are those that a script names, separated by commas. That of lockd is "a", "short", "unsure" or "rising"; in
// capitals are those of another program.
func holds(names string) (all []lock.SeenHold) {
	for name := range strings.SplitSeq(names, ",") {
		h := lock.SeenHold{ID: "exclusive a#1", TTL: time.Minute, Fence: fence}
		switch name {
		case "":
			continue
		case "a":
		case "short":
			h.TTL = 100 * time.Millisecond
		case "unsure":
			h.Unsure, h.Fence = true, fence+2
		case "rising":
			h.Rising = true
		default:
			h.ID, h.Fence, h.Foreign, h.Permit = name, 0, true, name == "PERMIT"
			if name == "SHORT" {
				h.TTL = 50 * time.Millisecond
			}
		}
		all = append(all, h)
	}
	return all
}

// do does what a line of a script says:
//
//	show a,B      the name is held by these from now on, and that is seen
//	change a,B    it is not seen yet
//	quietly a,B   nobody tells that something changed; a number is the last fence
//	touched N     it is told so often that a hold may have been renewed
//	frees B       Redisson tells of a release, and these are left
//	ends CAUSE N  lockd tells of an end, with a fence that is N more; "few" if less than a majority does, "bare" without
//	              a fence
//	hears WHAT    something else is told
//	wait D        time passes; "look" is until a look has seen, and is under way
func (s *shown) do(t *testing.T, line string) {
	words := strings.Fields(line + " .")
	switch what, of := words[0], strings.Trim(words[1], "."); what {
	case "show":
		s.change(holds(of)...)
		time.Sleep(50 * time.Millisecond)
	case "change":
		s.change(holds(of)...)
	case "quietly":
		s.mu.Lock()
		defer s.mu.Unlock()
		if n, err := strconv.Atoi(of); err == nil {
			s.seen.Fence = lock.Fence(n) //nolint:gosec // small
		} else {
			s.seen.Holds = holds(of)
		}
	case "touched":
		n, _ := strconv.Atoi(of)
		for range n {
			s.says(lock.Notice{What: lock.NoticeTouched})
			time.Sleep(100 * time.Millisecond)
		}
	case "frees":
		s.mu.Lock()
		s.bare++
		s.mu.Unlock()
		s.change(holds(of)...)
	case "ends":
		n := lock.Notice{What: lock.NoticeEnded, Cause: causes[of], Fence: fence, Unsure: slices.Contains(words, "few")}
		if slices.Contains(words, "+1") {
			n.Fence++
		}
		if slices.Contains(words, "bare") {
			n.Fence = 0
		}
		s.says(n)
	case "hears":
		s.says(lock.Notice{What: map[string]lock.What{
			"flushed": lock.NoticeFlushed, "deaf": lock.NoticeDeaf, "listening": lock.NoticeListening,
		}[of]})
	case "wait":
		d, _ := time.ParseDuration(of)
		if of == "look" {
			d = 5*time.Millisecond + 500*time.Microsecond
		}
		time.Sleep(d)
	default:
		t.Fatalf("nobody knows %q", line)
	}
}

var causes = map[string]lock.EndCause{
	"unknown": lock.EndUnknown, "released": lock.EndReleased, "expired": lock.EndExpired, "forced": lock.EndForced,
	"lost": lock.EndDataLoss,
}

// In each row something happens to a name that is free, and who watches it is told of these ends: with the fence of
// lockd's hold, with one more (+1), or without any (-).
func TestWhatIsToldOfAHold(t *testing.T) {
	for what, row := range map[string]struct{ script, want string }{
		"the message comes before the look": {"show a; ends released; show; ends released", "released"},
		"the message comes during a look that sees the hold": {
			"change a; wait look; ends released; show", "released",
		},
		"a deleted key":                     {"show a; show", "forced"},
		"a deleted key after many renewals": {"show a; touched 99; quietly; touched 1; wait 910ms; quietly a", "forced"},
		"a lease that runs out":             {"show short; quietly", "expired"},
		"a hold too short to be seen":       {"quietly 7; show", "expired"},
		"lost data":                         {"show a; hears flushed; show", "lost"},
		// The message knows more, and is a repeat.
		"during an outage": {"show a; hears deaf; show; hears listening; ends released", "unknown"},
		"just before it is known that messages are heard again": {
			"show a; hears deaf; wait 2s; quietly; hears listening", "unknown",
		},
		"a few of several stores tell, and it stands": {
			"show a; ends forced few; show a; ends released; show", "released",
		},
		"a few of several stores tell, and it is gone":           {"show a; ends released few; show", "released"},
		"a few of several stores tell of an attempt that failed": {"ends released few; quietly 7; show", ""},
		"it may last":         {"show a; show unsure; show unsure; show unsure; show unsure; show", "unknown"},
		"its fence is raised": {"show rising; ends released +1; quietly 8; show", "released+1"},
		"it was lost and put back": {
			"show a; hears flushed; show; show a; ends released; show", "lost released",
		},
		// Messages of another program say nothing but that something was released.
		"theirs, one after the other": {
			strings.Repeat("show B; frees; wait 10ms; ", 20), strings.Repeat("released- ", 20),
		},
		"theirs, to the next one":                          {"show B; frees C", "released-"},
		"theirs, during a look":                            {"change B; wait look; frees", "released-"},
		"theirs, during a look that sees the next one":     {"show B; frees C; wait look; frees", "released- released-"},
		"theirs, too short to be seen":                     {"frees; frees", "released- released-"},
		"theirs, too short to be seen, beside another one": {"show B; frees B", "released-"},
		"theirs, without a word":                           {"show B; show", "released-"},
		"theirs, a reader leaves others behind":            {"show READ-B,READ-C; show READ-C; frees", "released- released-"},
		"theirs, just before its lease ends":               {"show SHORT; frees", "released-"},
		"theirs, its lease ends":                           {"show SHORT; show", "expired-"},
		"theirs, by force":                                 {"show B; ends forced bare; show", "forced-"},
		"theirs, by force during a look":                   {"show B; change; wait look; ends forced bare", "forced-"},
		"theirs, by force, too short to be seen":           {"ends forced bare", "forced-"},
		"theirs, by force at one of several stores":        {"show B; ends forced bare few; show B", ""},
		"theirs, by force just after a release": {
			"show B; frees C; wait 10ms; ends forced bare; show", "released- forced-",
		},
		"permits by force, of which one was not seen": {"show PERMIT; ends forced bare; show", "forced- forced-"},
		"permits by force, of which none was seen":    {"quietly 7; ends forced bare", "forced- forced-"},
		"a permit during an outage":                   {"show PERMIT; hears deaf; hears listening; show", "unknown-"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &shown{look: time.Millisecond, seen: lock.Seen{Tracked: true}}
				hub := watching.New(store)
				defer hub.Close()
				w := &watcher{}
				hub.Watch("n", w, 1)
				time.Sleep(20 * time.Millisecond)
				store.do(t, "show")
				for line := range strings.SplitSeq(strings.TrimSuffix(row.script, "; "), ";") {
					store.do(t, line)
				}
				time.Sleep(3 * time.Second)
				w.mu.Lock()
				defer w.mu.Unlock()
				var want []end
				for word := range strings.FieldsSeq(row.want) {
					e := end{name: "n", fence: fence, cause: causes[strings.TrimRight(word, "+1-")]}
					switch {
					case strings.HasSuffix(word, "-"):
						e.fence = 0
					case strings.HasSuffix(word, "+1"):
						e.fence++
					}
					want = append(want, e)
				}
				if !slices.Equal(w.all, want) {
					t.Errorf("told %v, want %v", w.all, want)
				}
			})
		})
	}
}
