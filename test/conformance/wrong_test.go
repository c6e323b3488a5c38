package conformance

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
)

// wrongs are drivers that are wrong in one way, by what they say, and the scenarios that must find that.
var wrongs = []struct {
	what     string
	scenario string
	want     string // in what the player says
	alter    func(line map[string]any) []map[string]any
}{
	{
		"each fence is 7", "Each grant has a greater fence, whoever gets it", "fence is 7, want >h1 (7)",
		inAnswers("fence", json.Number("7")),
	},
	{
		"a loss is told twice", "A lock that is released by force is lost, and its holder is told by whom and why",
		"nobody expected", func(line map[string]any) []map[string]any {
			if line["event"] == "lost" {
				return []map[string]any{line, maps.Clone(line)}
			}
			return []map[string]any{line}
		},
	},
	{
		"a loss is not told", "A lease that is shortened ends sooner", "the event lost",
		func(line map[string]any) []map[string]any {
			if line["event"] == "lost" {
				return nil
			}
			return []map[string]any{line}
		},
	},
	{
		"what is lost is held", "A fixed lease ends at its time, and its holder is told", "held is true, want false",
		inAnswers("held", true),
	},
	{
		"a try of what is held succeeds", "A try is told who holds the lock", "h2 is answered",
		func(line map[string]any) []map[string]any {
			if line["error"] == "HELD" {
				line = map[string]any{"id": line["id"], "ok": map[string]any{"fence": json.Number("9")}}
			}
			return []map[string]any{line}
		},
	},
	{
		"a command is answered twice", "A lock is held until it is unlocked", "no command with this id",
		func(line map[string]any) []map[string]any {
			if line["ok"] != nil {
				return []map[string]any{line, maps.Clone(line)}
			}
			return []map[string]any{line}
		},
	},
}

// inAnswers changes a field of the answers that have it.
func inAnswers(field string, value any) func(line map[string]any) []map[string]any {
	return func(line map[string]any) []map[string]any {
		if ok, _ := line["ok"].(map[string]any); ok[field] != nil {
			ok[field] = value
		}
		return []map[string]any{line}
	}
}

func TestAWrongDriverIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scenarios := make(map[string]*scenario)
	for _, sc := range load(t) {
		scenarios[sc.title] = sc
	}
	for _, wrong := range wrongs {
		t.Run(wrong.what, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, w, scenarios[wrong.scenario])
			if strings.Contains(wrong.what, "not told") {
				p.patience = 10 * time.Second // it waits for what does not come
			}
			l := language{name: wrong.what, command: []string{driverBin}, alter: wrong.alter}
			if err := p.run(l); err == nil || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("the player says: %v, want %q", err, wrong.want)
			}
		})
	}
}

// mistakes are texts that are no scenarios, and what is said about them.
var mistakes = []struct{ text, want string }{
	{"- scenario: s\n  step: []", `f.yaml:2: a scenario has no "step"`},
	{"- scenario: s\n  steps: []", "f.yaml:1: a scenario needs a title and steps"},
	{of("a: lok n as h"), `f.yaml:3: a cannot "lok"`},
	{of("a: lock n"), "f.yaml:3: lock: the words after the verb should be: NAME as HOLD"},
	{of("a: lock n as h wait soon"), `f.yaml:3: lock: wait: time: invalid duration "soon"`},
	{of("a: lock n as h until 1s"), `f.yaml:3: lock: "until" is no option`},
	{of("a: unlock h"), "f.yaml:3: there is no h before this step"},
	{of("a: lock n as h\n  - a: lock n as h"), "f.yaml:4: there is a h already"},
	{of("alice: lock n as h"), `f.yaml:3: "alice" does nothing`},
	{of("a: lock n as h\n    expect: {fance: 1}"), `f.yaml:4: nothing tells "fance" here`},
	{of("a: lock n as h\n    expect: {fence: \">g\"}"), "f.yaml:4: there is no hold g before this step"},
	{of("a: lock n as h\n    until: {fence: 1}"), "f.yaml:3: until needs a command that only asks"},
	{of("expect: {event: gone, hold: h}"), `f.yaml:3: there is no event "gone"`},
	{of("expect: {event: lost}"), "f.yaml:3: the event lost needs: hold"},
	{of("replica: kill 0"), "what happens to replicas needs some of its own"},
	{of("proxy: cut a"), `f.yaml:3: proxy cannot "cut"`},
	{"- scenario: s\n  clients: {a: {ttl: 1s}}\n  steps: [{a: close}]", `f.yaml:2: a client has no option "ttl"`},
}

// of is a scenario with a step.
func of(text string) string { return "- scenario: s\n  steps:\n  - " + text }

func TestAMistakeInAScenarioIsNamedWithItsLine(t *testing.T) {
	for _, m := range mistakes {
		if _, err := readScenarios("f.yaml", []byte(m.text)); err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("%s\nis read with: %v\nwant: %s", m.text, err, m.want)
		}
	}
}
