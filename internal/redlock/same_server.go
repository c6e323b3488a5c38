package redlock

import (
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// checkSameServer is Examine's check for two members that are one server.
const checkSameServer = "SAME_SERVER"

// runIDSize is the length of a run id of Redis. Words of other lengths in an identity are not compared.
const runIDSize = 40

// sameServer says whether two identities have a run id in common. The identity of a cluster has one for each node.
func sameServer(a, b string) bool {
	others := strings.Fields(b)
	for run := range strings.FieldsSeq(a) {
		if len(run) == runIDSize && slices.Contains(others, run) {
			return true
		}
	}
	return false
}

// sameServer is another member that is the same server as m under another address, nil if there is none. Such a server
// votes twice, and takes two votes with it when it fails.
func (s *Store) sameServer(m *member) *member {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	for i, other := range s.members {
		if i != m.number && m.up.Load() && other.up.Load() &&
			sameServer(s.health.identities[i], s.health.identities[m.number]) {
			return other
		}
	}
	return nil
}

// SameServer returns the names of two members that are the same server, empty if there are none.
func (s *Store) SameServer() (a, b string) {
	for _, m := range s.members {
		if other := s.sameServer(m); other != nil {
			return m.name, other.name
		}
	}
	return "", ""
}

// tell logs what changed about a member that answered.
func (s *Store) tell(m *member) {
	other := s.sameServer(m)
	if was := m.doubled.Swap(other != nil); other != nil && !was {
		s.log.Error("two members are the same server", zap.Strings(observe.KeyMember, []string{m.name, other.name}),
			zap.String(observe.KeyRemedy, remedySameServer))
	}
	if b, ok := lock.As[Marked](m.Store); ok && b.Marked() {
		return // it may be new, which is not known yet
	}
	left := s.quarantine(m)
	switch was := m.out.Swap(left > 0); {
	case left > 0 && !was:
		s.log.Warn("a member may have lost its data, and does not vote for new locks for a time",
			zap.String(observe.KeyMember, m.name), zap.Duration(observe.KeyWithin, left))
	case left <= 0 && was:
		s.log.Info("a member votes for new locks again", zap.String(observe.KeyMember, m.name))
	}
}

const remedySameServer = "give each server once: this one votes twice, and its failure counts for two"

// quarantine is for how much longer a member does not vote for new holds.
func (s *Store) quarantine(m *member) time.Duration {
	if s.cfg.Quarantine == 0 {
		return 0
	}
	f, ok := lock.As[DataLoss](m.Store)
	if !ok {
		return 0
	}
	since, may := f.DataLoss()
	if !may {
		return 0
	}
	return max(s.drifted(s.cfg.Quarantine)-time.Since(since), 0)
}
