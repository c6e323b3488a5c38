package main

import (
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestATimeOfThePast(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 3600)
	now := time.Date(2026, 3, 4, 12, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"":                     {},
		"03:12":                time.Date(2026, 3, 4, 3, 12, 0, 0, zone),
		"12:30":                now,
		"23:12:07":             time.Date(2026, 3, 3, 23, 12, 7, 0, zone),
		"2026-02-01 03:12":     time.Date(2026, 2, 1, 3, 12, 0, 0, zone),
		"2026-02-01 03:12:05":  time.Date(2026, 2, 1, 3, 12, 5, 0, zone),
		"2026-02-01T03:12:05Z": time.Date(2026, 2, 1, 3, 12, 5, 0, time.UTC),
		"90m":                  now.Add(-90 * time.Minute),
	} {
		if got, err := past(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-1m", "24:01", "2026-02-30 03:12", "3"} {
		if got, err := past(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// at is a moment of a day.
func at(clock string) time.Time {
	t, err := time.Parse("15:04:05", clock)
	if err != nil {
		panic(err)
	}
	return t.AddDate(2026, 0, 0)
}

func happened(clock, event, who, kind string, fence uint64, held time.Duration) happenedView {
	e := happenedView{Time: at(clock), Event: event}
	e.Client, e.Owner, e.Kind, e.Fence = who, who+"#1", kind, fence
	if held > 0 {
		e.Held = new(millis(held.Milliseconds()))
	}
	return e
}

// What was held when is put together from what is remembered, of which much may be missing.
func TestWhoHeldANameAtATime(t *testing.T) {
	t.Parallel()
	forced := happened("03:20:00", "lost", "b", "exclusive", 2, 9*time.Minute)
	forced.whyView = whyView{"forced", "ann", "it hangs"}
	unary := happened("04:00:00", "granted", "u", "exclusive", 5, 0)
	unary.Lease = new(millis(60_000))
	noFence := happened("05:00:30", "released", "v", "exclusive", 0, 0)
	events := []happenedView{
		happened("03:10:00", "released", "a", "exclusive", 1, time.Hour), // its grant is remembered no more
		happened("03:11:00", "granted", "b", "exclusive", 2, 0), forced,
		happened("03:20:00", "granted", "c", "exclusive", 3, 0), // its end is not remembered
		happened("03:30:00", "granted", "d", "exclusive", 4, 0),
		happened("03:40:00", "resumed", "d", "exclusive", 4, 10*time.Minute),
		happened("03:40:01", "moved_away", "d", "exclusive", 4, 10*time.Minute),
		happened("03:50:00", "lost", "d", "exclusive", 4, 20*time.Minute),
		unary,
		happened("05:00:00", "granted", "v", "exclusive", 6, 0), noFence,
		happened("06:00:00", "granted", "r", "read", 7, 0), happened("06:00:00", "granted", "s", "read", 7, 0),
		happened("06:30:00", "resumed", "s", "read", 7, 30*time.Minute),
		happened("06:40:00", "released", "r", "read", 7, 40*time.Minute),
	}
	for clock, want := range map[string]string{
		"02:09:59": "",
		"02:10:00": "a released 1h",
		"03:12:00": "b lost: forced by ann: it hangs 9m",
		"03:20:00": "c not known; the next one had it then -",
		"03:35:00": "d lost 20m",
		"03:45:00": "d lost 20m",
		"03:50:00": "",
		"04:00:59": "u not known; unless it was extended, by itself at 2026-01-01 04:01:00.000 -",
		"04:01:00": "",
		"05:00:10": "v released 30s",
		"06:10:00": "r released 40m, s not known -",
		"06:50:00": "s not known -",
	} {
		var got []string
		for _, h := range holdsOf(events) {
			if h.covers(at(clock)) {
				held := "-"
				if h.Held != nil {
					held = h.Held.String()
				}
				got = append(got, h.Client+" "+h.end()+" "+held)
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("at %s: %s, want %s", clock, text, want)
		}
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	v := atView{Name: "job", At: at("03:12:00")}
	v.Asked, v.Silent, v.StoreError = 6, 1, "the store did not answer"
	v.Memories = []memoryView{
		{"early", new(at("03:00:00")), nil},
		{"late", new(at("03:15:00")), nil},
		{"off", nil, nil},
		{"gone", nil, new(at("03:14:00"))},
	}
	text := func() string {
		var p screen
		v.text(&p)
		return p.String()
	}
	want := `nobody is known to have held this name at 2026-01-01 03:12:00.000
the store did not answer: what other replicas remember is missing
1 of 6 replicas did not answer: what they know is missing
late remembers nothing before 2026-01-01 03:15:00.000: what happened there is missing
off remembers nothing: history.events is 0
gone is gone, and was heard of last at 2026-01-01 03:14:00.000: what it remembered is missing
`
	if got := text(); got != want {
		t.Errorf("got %s", got)
	}
	v.StoreError = ""
	if got := text(); !strings.Contains(got, "\n2 of 6 replicas are too old to remember anything\n") {
		t.Errorf("got %s", got)
	}
	v.HeldBy = []holdView{*holdsOf([]happenedView{happened("03:20:00", "released", "a", "fair", 7, time.Hour)})[0]}
	want = `at 2026-01-01 03:12:00.000 it was held by
CLIENT KIND SINCE UNTIL HELD FOR ENDED FENCE ADDRESS REPLICA ANNOTATION OWNER
a fair 2026-01-01 02:20:00.000 2026-01-01 03:20:00.000 1h released 7 - - - a#1
`
	if got := regexp.MustCompile("  +").ReplaceAllString(text(), " "); !strings.HasPrefix(got, want) {
		t.Errorf("got %s", got)
	}
}

var memoryKeys = []string{"memories", "replicas", "replicas_silent", "store_error"}

func TestHistory(t *testing.T) {
	t.Parallel()
	l := hold(t, "remembered", client.Annotation("nightly"))
	call(t, "unlock", "remembered", "--force", "--reason", "it\nhangs")
	harness.Soon(t, "told of its loss", l.Context().Done())
	var v map[string]any
	harness.Until(t, "the loss is remembered", func() bool {
		r := call(t, "history", "remembered", "-o", "json")
		v = parse(t, r.stdout, append([]string{"name", "events"}, memoryKeys...)...)
		return len(v["events"].([]any)) == 3
	})
	byEvent := map[string]map[string]any{}
	for _, one := range v["events"].([]any) {
		e := one.(map[string]any)
		byEvent[e["event"].(string)] = e
	}
	if e := byEvent["granted"]; e["client"] != "the test" || e["annotation"] != "nightly" || e["kind"] != "exclusive" ||
		e["fence"] != float64(l.Fence()) || e["held_ms"] != nil || e["waited_ms"] == nil || e["time"] == "" {
		t.Errorf("granted: %v", e)
	}
	if e := byEvent["lost"]; e["cause"] != "forced" || e["why"] != "it\nhangs" || e["by"] == "" || e["held_ms"] == nil {
		t.Errorf("lost: %v", e)
	}
	if e := byEvent["forced"]; e["why"] != "it\nhangs" || e["owner"] != "" {
		t.Errorf("forced: %v", e)
	}
	text := call(t, "history", "remembered")
	if !strings.HasPrefix(text.stdout, "TIME ") || !strings.Contains(text.stdout, `: it\nhangs `) || text.code != 0 {
		t.Errorf("got %+v", text)
	}
	r := call(t, "history", "never-heard-of", "-o", "json")
	if v := parse(t, r.stdout, append([]string{"name", "events"}, memoryKeys...)...); r.code != exitFailed ||
		len(v["events"].([]any)) != 0 || len(v["memories"].([]any)) != 1 {
		t.Errorf("got %+v", r)
	}
	if r := call(t, "history", "never-heard-of"); !strings.HasPrefix(r.stdout, "nothing is remembered of this name\n") {
		t.Errorf("got %+v", r)
	}
	r = call(t, "history", "remembered", "--at", "2001-01-01 00:00", "-o", "json")
	if v := parse(t, r.stdout, append([]string{"name", "at", "held_by"}, memoryKeys...)...); r.code != exitFailed ||
		len(v["held_by"].([]any)) != 0 {
		t.Errorf("got %+v", r)
	}
	if r := call(t, "history", "remembered", "--until", "2001-01-01 00:00"); r.code != exitFailed {
		t.Errorf("got %+v", r)
	}
	call(t, "history", "remembered", "--since", "soon").want(t, exitUsage, "", `--since "soon": it must be as 15:04`)
}

func TestTop(t *testing.T) {
	t.Parallel()
	hold(t, "top:held")
	p := start(t, "top", "--prefix", "top:", "--by", "held", "--interval", "1ms", "-o", "json")
	for range 2 {
		line, err := p.out.ReadString('\n')
		harness.Must(t, err)
		v := parse(t, line, append([]string{"time", "by", "window_ms", "names"}, memoryKeys...)...)
		names := v["names"].([]any)
		if one := names[0].(map[string]any); len(names) != 1 || one["name"] != "top:held" || one["holders"] != 1.0 ||
			one["turnover"].(float64) <= 0 || v["window_ms"] != 60_000.0 || v["by"] != "held" {
			t.Errorf("got %s", line)
		}
	}
	p.signal(syscall.SIGINT)
	_, err := io.Copy(io.Discard, p.out)
	harness.Must(t, err)
	p.wait(exitSignal+int(syscall.SIGINT), "")
	r := call(t, "top", "--once", "--prefix", "top:")
	if !strings.Contains(r.stdout, ", the last 1m, by waiting\nNAME ") || !strings.Contains(r.stdout, "\ntop:held ") {
		t.Errorf("got %+v", r)
	}
	call(t, "top", "--by", "luck").want(t, exitUsage, "", "--by must be waiting, held or turnover")
}
