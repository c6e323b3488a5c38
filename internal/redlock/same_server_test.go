package redlock

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/lock"
)

// named is a member that tells a run id.
type named struct {
	*patient

	run string
}

func (n *named) Probe(ctx context.Context) (string, error) {
	if _, err := n.patient.Probe(ctx); err != nil {
		return "", err
	}
	return n.run, nil
}

// run is an id of a run as Redis makes them.
func run(of string) string { return strings.Repeat(of, runIDSize) }

// watched is a Store over members with these runs, and what it logs. A member without a run is away.
func watched(t *testing.T, runs ...string) (*Store, []*named, *observer.ObservedLogs) {
	t.Helper()
	var all []*named
	var members []lock.Store
	_, patients := patients(t, len(runs), 0)
	for i, id := range runs {
		all = append(all, &named{patient: patients[i], run: id})
		all[i].away = id == ""
		members = append(members, all[i])
	}
	core, logs := observer.New(zapcore.InfoLevel)
	s, err := New(Config{Quarantine: time.Minute}, members, zap.New(core), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	probeAll(t, s)
	return s, all, logs
}

// probeAll has all members probed.
func probeAll(t *testing.T, s *Store) {
	t.Helper()
	_, _ = s.Probe(t.Context()) // not with a majority away
	for end := time.Now().Add(10 * time.Second); s.underWay.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the probe goes on")
		}
	}
}

// told is how often something was logged of a member.
func told(logs *observer.ObservedLogs, message string) int {
	return logs.FilterMessageSnippet(message).Len()
}

// One server under two names would be two votes, and its failure that of two.
func TestOneServerIsNotTwoMembers(t *testing.T) {
	s, all, logs := watched(t, run("a"), run("b"), run("a"))
	probeAll(t, s)
	if a, b := s.SameServer(); a != "0" || b != "2" {
		t.Errorf("got %q and %q as one server, want 0 and 2", a, b)
	}
	found := 0
	for _, f := range s.Examine(t.Context()) {
		if f.Check == checkSameServer && f.Severity == lock.SeverityError && f.Remedy != "" {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d findings, want one for each of both", found)
	}
	if n := told(logs, "same server"); n < 1 || n > 2 {
		t.Errorf("logged %d times, want once for a member", n)
	}

	all[2].run = run("c") // the name leads elsewhere now
	probeAll(t, s)
	if a, b := s.SameServer(); a != "" || b != "" {
		t.Errorf("got %q and %q as one server, want none", a, b)
	}
}

func TestMembersOfOneClusterAreOneServer(t *testing.T) {
	s, _, _ := watched(t, run("a")+" "+run("b"), run("c"), run("d")+" "+run("b"))
	if a, b := s.SameServer(); a != "0" || b != "2" {
		t.Errorf("got %q and %q as one server, want 0 and 2", a, b)
	}
}

// What is no run id is no reason to take two members for one.
func TestOtherIdentitiesMayBeAlike(t *testing.T) {
	s, _, _ := watched(t, "unknown", "unknown", "memory")
	if a, b := s.SameServer(); a != "" || b != "" {
		t.Errorf("got %q and %q as one server, want none", a, b)
	}
}

// A member that never answered is told of as well.
func TestAMemberThatIsAwayFromTheStartIsTold(t *testing.T) {
	s, _, logs := watched(t, run("a"), run("b"), "")
	probeAll(t, s)
	if n := told(logs, "a member cannot be reached"); n != 1 {
		t.Errorf("told %d times, want once: %v", n, logs.All())
	}
}

func TestAMemberThatDoesNotVoteIsTold(t *testing.T) {
	s, all, logs := watched(t, run("a"), run("b"), run("c"))
	if n := told(logs, "does not vote"); n != 0 {
		t.Errorf("told %d times of members that vote", n)
	}
	all[1].since = time.Now()
	probeAll(t, s)
	probeAll(t, s)
	lines := logs.FilterMessageSnippet("does not vote").All()
	if len(lines) != 1 || lines[0].ContextMap()["member"] != "1" {
		t.Errorf("got %v, want one line about member 1", lines)
	}
	all[1].since = time.Now().Add(-2 * time.Minute)
	probeAll(t, s)
	if n := told(logs, "votes for new locks again"); n != 1 {
		t.Errorf("told %d times that it votes again, want once", n)
	}
}
