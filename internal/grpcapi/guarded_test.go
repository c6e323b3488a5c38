package grpcapi_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/security"
)

// guarded is a server for one client, whom it takes everybody for.
func guarded(t testing.TB, quota string, g *gate.Gate) *server {
	t.Helper()
	path := certstest.Write(t, filepath.Join(t.TempDir(), "clients.yaml"),
		[]byte("default: guest\nclients: [{name: guest, lock: ['*'], quota: {"+quota+"}}]\n"))
	guard, err := security.Open(security.Config{File: path}, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	t.Cleanup(guard.Close)
	return startGuarded(t, zap.NewNop(), func(*broker.Config) {}, g, guard)
}

// The quotas of a client hold at both addresses. They refuse nothing that gives something back.
func TestQuotasHoldAtBothAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := guarded(t, "streams: 1", nil)
		c := s.open(&lockdv1.Open{})
		_, err := lockdv1.NewInspectServiceClient(s.admin).GetStatus(t.Context(), &lockdv1.GetStatusRequest{})
		wantReason(t, err, "QUOTA_CLIENT_STREAMS")
		locks := lockdv1.NewLockServiceClient(s.conn)
		_, err = locks.Release(t.Context(), &lockdv1.ReleaseRequest{Name: "x", LeaseId: strings.Repeat("x", 22)})
		wantReason(t, err, "LOCK_NOT_HELD")
		c.breaks()
		for range 2 {
			_, err = lockdv1.NewInspectServiceClient(s.admin).GetStatus(t.Context(), &lockdv1.GetStatusRequest{})
			must(t, err)
		}
	})
}

// A resume waits at the gate with the share of who it comes from, whatever session it names.
func TestAResumeHasTheShareOfItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &sharedStore{}
		s := guarded(t, "", gate.New(store, func() time.Duration { return 0 }))
		_, err := s.refuses(&lockdv1.Open{Resume: &lockdv1.Resume{SessionId: "client other", ResumeToken: "x", Epoch: 2}})
		wantReason(t, err, "SESSION_EXPIRED")
		if got := slices.Compact(store.asked()); !slices.Equal(got, []string{"client guest"}) {
			t.Errorf("shares of %q were asked for", got)
		}
	})
}

// sharedStore has too much to do, and notes whose share is asked for.
type sharedStore struct {
	mu     sync.Mutex // guards the field below
	shares []string
}

func (s *sharedStore) Waiting() int { return 1 << 20 }

func (s *sharedStore) Share(of string) (int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shares = append(s.shares, of)
	return 1 << 20, 1
}

func (s *sharedStore) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.shares)
}
