package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// patient is a member that is examined.
type patient struct {
	lock.Store
	away  bool
	kept  string
	since time.Time // when it lost its data
}

func (p *patient) Probe(ctx context.Context) (string, error) {
	if p.away {
		return "", lock.ErrUnavailable
	}
	return p.Store.Probe(ctx)
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

func (p *patient) Fresh() (time.Time, bool) { return p.since, !p.since.IsZero() }

// patients are so many members, of which so many are away.
func patients(t *testing.T, n, away int) (*Store, []*patient) {
	t.Helper()
	all, members := make([]*patient, n), make([]lock.Store, n)
	for i := range n {
		all[i] = &patient{Store: memstore.New(), away: i < away}
		members[i] = all[i]
	}
	s, err := New(Config{Quarantine: time.Minute}, members, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	_, _ = s.Probe(t.Context()) // not with a majority away
	for end := time.Now().Add(10 * time.Second); s.underWay.Load() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return s, all
}

func TestAMajorityIsExamined(t *testing.T) {
	for _, row := range []struct {
		members, away     int
		quorum, reachable lock.Severity // the worst
	}{
		{3, 0, lock.SeverityOK, lock.SeverityOK},
		{5, 2, lock.SeverityWarning, lock.SeverityWarning},
		{5, 3, lock.SeverityError, lock.SeverityError},
		{4, 0, lock.SeverityWarning, lock.SeverityOK},
	} {
		s, _ := patients(t, row.members, row.away)
		worst, policies := make(map[string]lock.Severity), 0
		for _, f := range s.Examine(t.Context()) {
			worst[f.Check] = max(worst[f.Check], f.Severity)
			if f.Check == "MAXMEMORY_POLICY" && f.Severity == lock.SeverityError {
				policies++
			}
		}
		if worst[checkQuorum] != row.quorum || worst[checkReachable] != row.reachable || policies != row.members-row.away {
			t.Errorf("%d of %d away: got %v and %d findings of the others", row.away, row.members, worst, policies)
		}
	}
}

func TestAMemberThatDoesNotVoteIsFound(t *testing.T) {
	s, all := patients(t, 3, 0)
	all[1].since = time.Now()
	var found []lock.Finding
	for _, f := range s.Examine(t.Context()) {
		if f.Check == checkQuarantine {
			found = append(found, f)
		}
	}
	if len(found) != 1 || found[0].Node != "1" || found[0].Severity != lock.SeverityWarning {
		t.Errorf("got %+v, want that member 1 does not vote", found)
	}
}

// That all are there is not enough.
func TestAMajorityThatDoesNotVoteIsAnError(t *testing.T) {
	for _, row := range []struct {
		away, mute int
		want       lock.Severity
	}{
		{0, 2, lock.SeverityOK},
		{0, 3, lock.SeverityError},
		{1, 1, lock.SeverityWarning},
		{1, 2, lock.SeverityError},
	} {
		s, all := patients(t, 5, row.away)
		for _, p := range all[row.away:][:row.mute] {
			p.since = time.Now()
		}
		for _, f := range s.Examine(t.Context()) {
			if f.Check == checkQuorum && f.Severity != row.want {
				t.Errorf("%d of 5 are away, %d do not vote: got %+v", row.away, row.mute, f)
			}
		}
	}
}

func TestOneMemberIsEnoughToDiffer(t *testing.T) {
	s, all := patients(t, 5, 2)
	declare := func(want string, failure error) {
		t.Helper()
		kept, err := s.Declare(t.Context(), "three", time.Minute)
		if kept != want || !errors.Is(err, failure) {
			t.Errorf("got %q, %v, want %q, %v", kept, err, want, failure)
		}
	}
	declare("three", nil)
	all[2].away = true
	declare("", lock.ErrNoQuorum)
	all[4].kept = "five"
	declare("five", nil)
	if strings.Contains(all[3].kept, "five") {
		t.Error("a member took over what another one keeps")
	}
}
