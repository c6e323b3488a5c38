package grpcapi_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/security"
)

// guarded is a server for one client, whom it takes everybody for.
func guarded(t testing.TB, quota string, g *gate.Gate) *server {
	t.Helper()
	guard := newGuard(t, "default: guest\nclients: [{name: guest, lock: ['*'], quota: {"+quota+"}}]\n", "")
	return startGuarded(t, zap.NewNop(), func(*broker.Config) {}, g, guard)
}

func newGuard(t testing.TB, clients, audit string) *security.Guard {
	t.Helper()
	path := certstest.Write(t, filepath.Join(t.TempDir(), "clients.yaml"), []byte(clients))
	guard, err := security.Open(security.Config{File: path, Audit: audit}, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	t.Cleanup(guard.Close)
	return guard
}

// The audit, the log and the holders are told who released a name by force as it is known, beside what it says itself.
func TestWhoReleasedByForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		audit := filepath.Join(t.TempDir(), "audit.json")
		guard := newGuard(t, "default: ops\nclients: [{name: ops, lock: ['*'], admin: [force]}]\n", audit)
		core, lines := observer.New(zap.InfoLevel)
		s := startGuarded(t, zap.New(core), func(*broker.Config) {}, nil, guard)
		c := s.open(&lockdv1.Open{ClientName: "worker"})
		hold := c.take(1, "job").GetHolds()[0]
		for range 2 { // the second time nobody holds it
			_, err := lockdv1.NewAdminServiceClient(s.admin).ForceRelease(t.Context(),
				&lockdv1.ForceReleaseRequest{Name: "job", By: "ceo@hq", Why: "stuck\n\u202e"})
			must(t, err)
		}
		const who = "ops (ceo@hq)"
		if got := c.recv().GetLost().GetBy(); got != who {
			t.Errorf("the holder is told %q", got)
		}
		for _, text := range []string{"released by force", "a lock was lost"} {
			if got := lines.FilterMessage(text).All()[0].ContextMap()["by"]; got != who {
				t.Errorf("%q is by %q", text, got)
			}
		}
		guard.Close()
		forced := auditedIn(t, audit, security.EventForced)
		const said = `kind exclusive, reason "stuck\n\u202e", by "ceo@hq"`
		owner := c.opened.GetSessionId() + ":" + hold.GetHolder()
		held := fmt.Sprintf(`; held by %s of "ops" named "worker" at "bufconn", kind exclusive, fence %d`,
			owner, hold.GetFence())
		if e := forced[0]; e.Result != "OK" || e.Fence != hold.GetFence() || e.Detail != said+held {
			t.Errorf("got %+v, want %q", e, said+held)
		}
		if e := forced[1]; e.Result != "LOCK_NOT_HELD" || e.Fence != 0 || e.Detail != said {
			t.Errorf("got %+v of a name that nobody held", e)
		}
	})
}

// auditedIn are the lines of an audit about some things.
func auditedIn(t testing.TB, path string, what ...string) (all []security.Event) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	for line := range bytes.Lines(text) {
		var e security.Event
		must(t, json.Unmarshal(line, &e))
		if slices.Contains(what, e.What) {
			all = append(all, e)
		}
	}
	return all
}

// The audit has what is known of who was not let in, whose stream ended, and whose hold was taken away.
func TestTheAuditHasWhomAFileThrewOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		audit := filepath.Join(t.TempDir(), "audit.json")
		file := certstest.Write(t, filepath.Join(t.TempDir(), "clients.yaml"),
			[]byte("default: guest\nclients: [{name: guest, lock: ['*']}]\n"))
		guard, err := security.Open(security.Config{File: file, Audit: audit}, zap.NewNop(), prometheus.NewRegistry())
		must(t, err)
		defer guard.Close()
		s := startGuarded(t, zap.NewNop(), func(*broker.Config) {}, nil, guard)
		guard.OnChange(func() { s.b.Review(guard.EndsHolds(), guard.Allowances()) })
		c := s.open(&lockdv1.Open{})
		hold := c.take(1, "job").GetHolds()[0]
		part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
		token := part(`{"alg":"ES256"}`) + "." + part(`{"iss":"i","sub":"repo:a"}`) + "." + part("no signature")
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		_, err = lockdv1.NewLockServiceClient(s.conn).Get(ctx, &lockdv1.GetRequest{Name: "job"})
		if status.Code(err) != codes.Unauthenticated {
			t.Errorf("got %v", err)
		}
		for _, text := range []string{
			"default: guest\non_revoke: end\nclients: [{name: guest}]\n", "clients: [{name: other, cert: x}]\n",
		} {
			certstest.Write(t, file, []byte(text))
			time.Sleep(5 * time.Second)
		}
		if lost := c.recv().GetLost(); lost.GetHold().GetName() != "job" {
			t.Errorf("got %v", lost)
		}
		guard.Close()
		var got []string
		for _, e := range auditedIn(t, audit, security.EventUnauthenticated, security.EventRevoked) {
			known := e.Peer == "bufconn" && (e.What != security.EventRevoked || e.Fence == hold.GetFence())
			ofSession := e.Session == c.opened.GetSessionId()
			got = append(got, fmt.Sprint(e.What, " ", e.Client, " ", e.By, " ", e.Verb, " ", e.Result, " ", known, ofSession))
		}
		want := []string{
			"unauthenticated  unproven jwt repo:a of i /lockd.v1.LockService/Get TOKEN_INVALID true false",
			"revoked guest no credentials lock OK true true",
			"unauthenticated guest no credentials /lockd.v1.SessionService/Session IDENTITY_WITHDRAWN true true",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

// The quotas of a client hold at both addresses. They refuse nothing that releases something.
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
