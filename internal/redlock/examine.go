package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

var (
	_ lock.Examiner = (*Store)(nil)
	_ lock.Declarer = (*Store)(nil)
)

// The checks of a majority. Programs read these words: they are never renamed.
const (
	checkQuorum     = "QUORUM"
	checkQuarantine = "QUARANTINE"
	// checkReachable is a member's own check. A minority of the members may be away.
	checkReachable = "REACHABLE"
)

// Examine implements lock.Examiner: it looks at all members at the same time.
func (s *Store) Examine(ctx context.Context) []lock.Finding {
	found := make([][]lock.Finding, len(s.members))
	s.together(func(m *member) {
		if e, ok := lock.As[lock.Examiner](m.Store); ok {
			found[m.number] = e.Examine(ctx)
		}
	})
	up, away, out := 0, 0, 0
	for _, m := range s.members {
		if m.up.Load() {
			up++
			if s.quarantined(m) {
				out++
			}
		}
		if slices.ContainsFunc(found[m.number], isAway) {
			away++
		}
	}
	all := []lock.Finding{s.examineQuorum(min(up, len(s.members)-away), out)}
	for _, m := range s.members {
		for _, f := range found[m.number] {
			if isAway(f) && len(s.members)-away >= s.quorum {
				f.Severity = lock.SeverityWarning
			}
			all = append(all, f)
		}
		if other := s.sameServer(m); other != nil {
			all = append(all, lock.Finding{
				Severity: lock.SeverityError, Check: checkSameServer, Node: m.name,
				Detail: "it is the same server as " + other.name, Remedy: remedySameServer,
			})
		}
		if left := s.quarantine(m); left > 0 {
			all = append(all, lock.Finding{
				Severity: lock.SeverityWarning, Check: checkQuarantine, Node: m.name,
				Detail: fmt.Sprintf("it may have lost its data, and does not vote for new locks until every lease it may have "+
					"forgotten has ended: in %v",
					left.Round(time.Second)),
				Remedy: "wait; it votes again by itself. See why it was restarted, and let it write its data to the disk",
			})
		}
	}
	return all
}

// isAway says whether a member was found to be away, as a whole or in part.
func isAway(f lock.Finding) bool {
	return f.Check == checkReachable && f.Severity == lock.SeverityError
}

func (s *Store) examineQuorum(up, out int) lock.Finding {
	n := len(s.members)
	f := lock.Finding{
		Severity: lock.SeverityOK, Check: checkQuorum, Node: "redlock",
		Detail: fmt.Sprintf("%d of %d members are there, %d are a majority", up, n, s.quorum),
	}
	switch {
	case up < s.quorum:
		f.Severity, f.Remedy = lock.SeverityError, "start the members that are missing: nothing can be locked, and leases end"
	case up-out < s.quorum:
		f.Severity, f.Detail = lock.SeverityError, f.Detail+fmt.Sprintf(", and %d of those do not vote", out)
		f.Remedy = "start members that are missing, or wait until a majority votes again: nothing new can be locked, and " +
			"holders keep what they have"
	case up < n:
		f.Severity, f.Remedy = lock.SeverityWarning, "start the members that are missing"
	case n%2 == 0:
		f.Severity, f.Remedy = lock.SeverityWarning, "have one member more or less: an even one bears no further failure"
	}
	return f
}

// Declare implements lock.Declarer. Each member keeps the text. If any member keeps another text, Declare returns that;
// it returns text if a majority keeps it.
func (s *Store) Declare(ctx context.Context, text string, ttl time.Duration) (string, error) {
	kept, errs := make([]string, len(s.members)), make([]error, len(s.members))
	s.together(func(m *member) {
		d, ok := lock.As[lock.Declarer](m.Store)
		if !ok {
			kept[m.number] = text // the member is shared with nobody
			return
		}
		kept[m.number], errs[m.number] = d.Declare(ctx, text, ttl)
	})
	agree := 0
	for i, there := range kept {
		switch {
		case errs[i] != nil:
		case there != text:
			return there, nil
		default:
			agree++
		}
	}
	if agree < s.quorum {
		return "", fmt.Errorf("%w: %w", lock.ErrNoQuorum, errors.Join(errs...))
	}
	return text, nil
}

// Overlaps implements lock.Declarer: it returns the prefixes that any member tells, and no error if one answers.
func (s *Store) Overlaps(ctx context.Context, ttl time.Duration) ([]string, error) {
	told, errs := make([][]string, len(s.members)), make([]error, len(s.members))
	s.together(func(m *member) {
		if d, ok := lock.As[lock.Declarer](m.Store); ok {
			told[m.number], errs[m.number] = d.Overlaps(ctx, ttl)
		}
	})
	if !slices.Contains(errs, nil) {
		return nil, fmt.Errorf("%w: %w", lock.ErrNoQuorum, errors.Join(errs...))
	}
	all := slices.Concat(told...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// together calls f for all members at the same time, and waits.
func (s *Store) together(f func(m *member)) {
	var wg sync.WaitGroup
	for _, m := range s.members {
		wg.Go(func() { f(m) })
	}
	wg.Wait()
}
