package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/lock"
)

// patient is a member that is examined.
type patient struct {
	*node
	away bool
	run  string // its identity
	kept string
}

func (p *patient) Probe(context.Context) (string, error) {
	if p.away {
		return "", lock.ErrUnavailable
	}
	return p.run, nil
}

func (p *patient) Examine(context.Context) []lock.Finding {
	if p.away {
		return []lock.Finding{{Severity: lock.SeverityError, Check: checkReachable}}
	}
	return []lock.Finding{
		{Severity: lock.SeverityOK, Check: checkReachable},
		{Severity: lock.SeverityError, Check: "MAXMEMORY_POLICY"},
	}
}

func (p *patient) Overlaps(context.Context, time.Duration) ([]string, error) { return nil, nil }

func (p *patient) Declare(_ context.Context, text string, _ time.Duration) (string, error) {
	if p.away {
		return "", lock.ErrUnavailable
	}
	if p.kept == "" {
		p.kept = text
	}
	return p.kept, nil
}

// ward is a majority of patients, and what it logs.
type ward struct {
	*testing.T
	*Store
	all  []*patient
	logs *observer.ObservedLogs
}

// inWard runs a test with members that have these identities. One without any is away.
func inWard(t *testing.T, test func(w *ward), runs ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &ward{T: t}
		var members []lock.Store
		for _, id := range runs {
			p := &patient{node: newNode(), run: id, away: id == ""}
			w.all, members = append(w.all, p), append(members, p)
		}
		core, logs := observer.New(zapcore.InfoLevel)
		s, err := New(Config{Quarantine: time.Minute}, members, zap.New(core), nil)
		must(t, err)
		defer func() { _ = s.Close() }()
		w.Store, w.logs = s, logs
		w.probeAll()
		test(w)
	})
}

// probeAll has all members probed.
func (w *ward) probeAll() {
	_, _ = w.Probe(w.Context()) // not with a majority away
	synctest.Wait()
}

// finds are the findings of a check.
func (w *ward) finds(check string) (all []lock.Finding) {
	for _, f := range w.Examine(w.Context()) {
		if f.Check == check {
			all = append(all, f)
		}
	}
	return all
}

// told is how often something was logged.
func (w *ward) told(message string) int { return w.logs.FilterMessageSnippet(message).Len() }

// severity is the worst one of some findings.
func severity(all []lock.Finding) (worst lock.Severity) {
	for _, f := range all {
		worst = max(worst, f.Severity)
	}
	return worst
}

// That all are there is not enough: a majority must vote.
func TestAMajorityIsExamined(t *testing.T) {
	for _, row := range []struct {
		members, away, out int
		quorum, reachable  lock.Severity // the worst
	}{
		{3, 0, 0, lock.SeverityOK, lock.SeverityOK},
		{5, 2, 0, lock.SeverityWarning, lock.SeverityWarning},
		{5, 3, 0, lock.SeverityError, lock.SeverityError},
		{4, 0, 0, lock.SeverityWarning, lock.SeverityOK},
		{5, 0, 2, lock.SeverityOK, lock.SeverityOK},
		{5, 0, 3, lock.SeverityError, lock.SeverityOK},
		{5, 1, 1, lock.SeverityWarning, lock.SeverityWarning},
		{5, 1, 2, lock.SeverityError, lock.SeverityWarning},
	} {
		inWard(t, func(w *ward) {
			for _, p := range w.all[row.away:][:row.out] {
				p.restart()
			}
			quorum, reachable := severity(w.finds(checkQuorum)), severity(w.finds(checkReachable))
			if quorum != row.quorum || reachable != row.reachable {
				t.Errorf("%+v: got %v and %v", row, quorum, reachable)
			}
			if n := len(w.finds("MAXMEMORY_POLICY")); n != row.members-row.away {
				t.Errorf("%+v: %d findings of the others", row, n)
			}
			found := w.finds(checkQuarantine)
			if len(found) != row.out || row.out > 0 && found[0].Node != fmt.Sprint(row.away) ||
				row.out > 0 && severity(found) != lock.SeverityWarning {
				t.Errorf("%+v: got %+v of members that do not vote", row, found)
			}
		}, strings.Split(strings.Repeat(",", row.away)+strings.Repeat("up,", row.members-row.away), ",")[:row.members]...)
	}
}

func TestOneMemberIsEnoughToDiffer(t *testing.T) {
	inWard(t, func(w *ward) {
		declare := func(want string, failure error) {
			t.Helper()
			kept, err := w.Declare(t.Context(), "three", time.Minute)
			if kept != want || !errors.Is(err, failure) {
				t.Errorf("got %q, %v, want %q, %v", kept, err, want, failure)
			}
		}
		declare("three", nil)
		w.all[2].away = true
		declare("", lock.ErrNoQuorum)
		w.all[4].kept = "five"
		declare("five", nil)
		if strings.Contains(w.all[3].kept, "five") {
			t.Error("a member took over what another one keeps")
		}
	}, "", "", "2", "3", "4")
}

// run is an id of a run as Redis makes them.
func run(of string) string { return strings.Repeat(of, runIDSize) }

// One server under two names would be two votes, and its failure that of two.
func TestOneServerIsNotTwoMembers(t *testing.T) {
	inWard(t, func(w *ward) {
		w.probeAll()
		if a, b := w.SameServer(); a != "0" || b != "2" {
			t.Errorf("got %q and %q as one server, want 0 and 2", a, b)
		}
		found := w.finds(checkSameServer)
		if len(found) != 2 || severity(found) != lock.SeverityError || found[0].Remedy == "" {
			t.Errorf("got %+v, want one for each of both", found)
		}
		if n := w.told("same server"); n < 1 || n > 2 {
			t.Errorf("logged %d times, want once for a member", n)
		}
		w.all[2].run = run("c") // the name leads elsewhere now
		w.probeAll()
		if a, b := w.SameServer(); a != "" || b != "" {
			t.Errorf("got %q and %q as one server, want none", a, b)
		}
	}, run("a"), run("b"), run("a"))
}

func TestMembersOfOneClusterAreOneServer(t *testing.T) {
	inWard(t, func(w *ward) {
		if a, b := w.SameServer(); a != "0" || b != "2" {
			t.Errorf("got %q and %q as one server, want 0 and 2", a, b)
		}
	}, run("a")+" "+run("b"), run("c"), run("d")+" "+run("b"))
	// What is no run id is no reason to take two members for one.
	inWard(t, func(w *ward) {
		if a, b := w.SameServer(); a != "" || b != "" {
			t.Errorf("got %q and %q as one server, want none", a, b)
		}
	}, "unknown", "unknown", "memory")
}

// Of a member that never answered, or does not vote, one line tells; and one that it votes again.
func TestWhatChangesAboutMembersIsTold(t *testing.T) {
	inWard(t, func(w *ward) {
		w.probeAll()
		if n := w.told("a member cannot be reached"); n != 1 {
			t.Errorf("told %d times, want once: %v", n, w.logs.All())
		}
		if n := w.told("does not vote"); n != 0 {
			t.Errorf("told %d times of members that vote", n)
		}
		w.all[1].restart()
		w.probeAll()
		w.probeAll()
		lines := w.logs.FilterMessageSnippet("does not vote").All()
		if len(lines) != 1 || lines[0].ContextMap()["member"] != "1" {
			t.Errorf("got %v, want one line about member 1", lines)
		}
		time.Sleep(2 * time.Minute)
		w.probeAll()
		if n := w.told("votes for new locks again"); n != 1 {
			t.Errorf("told %d times that it votes again, want once", n)
		}
	}, "0", "1", "")
}
