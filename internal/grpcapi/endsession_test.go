package grpcapi_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/metadata"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/security"
)

// Who may force, and lock every name, ends a session: what it held is free, its client is told by whom and why, and
// cannot go on with it. Both the audit and the client have the reason.
func TestAnOperatorEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		audit := filepath.Join(t.TempDir(), "audit.json")
		hash := func(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }
		guard := newGuard(t, `
default: worker
clients:
- {name: ops, token_sha256: [`+hash("ops")+`], lock: ["*"], admin: [force]}
- {name: some, token_sha256: [`+hash("some")+`], lock: ["job*"], admin: [force]}
- {name: careful, token_sha256: [`+hash("careful")+`], lock: ["*"], deny: ["pay"], admin: [force]}
- {name: worker, lock: ["*"]}
`, audit)
		s := startGuarded(t, zap.NewNop(), func(*broker.Config) {}, nil, guard)
		c := s.open(&lockdv1.Open{ClientName: "w", Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}})
		c.take(1, "job")
		id := c.opened.GetSessionId()
		end := func(token, id, why string) (*lockdv1.EndSessionResponse, error) {
			ctx := t.Context()
			if token != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
			}
			return lockdv1.NewAdminServiceClient(s.admin).EndSession(ctx,
				&lockdv1.EndSessionRequest{SessionId: id, Why: why, By: "alice"})
		}
		for _, token := range []string{"", "some", "careful"} {
			_, err := end(token, id, "mine")
			wantReason(t, err, "FORBIDDEN")
		}
		_, err := end("ops", id, strings.Repeat("x", 513))
		wantReason(t, err, "INVALID_REASON")
		if got, err := end("ops", "another", "it hangs"); err != nil || got.GetEnded() {
			t.Errorf("of no session: got %v, %v", got, err)
		}
		got, err := end("ops", id, "it hangs")
		if err != nil || !got.GetEnded() || !got.GetReleased() || got.GetReplicasAnswered() != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		st := wantReason(t, c.end(), "SESSION_EXPIRED")
		if want := "an operator ended the session: ops (alice): it hangs"; !strings.Contains(st.Message(), want) {
			t.Errorf("the client is told %q, want %q", st.Message(), want)
		}
		s.open(&lockdv1.Open{}).take(1, "job")
		_, err = s.refuses(&lockdv1.Open{Resume: &lockdv1.Resume{
			SessionId: id, ResumeToken: c.opened.GetResumeToken(), Epoch: 2,
		}})
		wantReason(t, err, "SESSION_EXPIRED")
		guard.Close()
		var results []string
		for _, e := range auditedIn(t, audit, security.EventSessionEnded, security.EventDenied) {
			results = append(results, e.What+" "+e.Client+" "+e.Result)
			const detail = `reason "it hangs", by "alice"; it was of "worker"`
			if e.Result == "OK" && (e.Session != id || !strings.Contains(e.Detail, detail)) {
				t.Errorf("the audit has %+v", e)
			}
		}
		want := "denied worker FORBIDDEN, denied some FORBIDDEN, denied careful FORBIDDEN, " +
			"session_ended ops INVALID_REASON, session_ended ops SESSION_EXPIRED, session_ended ops OK"
		if got := strings.Join(results, ", "); got != want {
			t.Errorf("the audit has %s, want %s", got, want)
		}
	})
}

// Who asks for the end of a session and leaves has begun it: the log and the audit have it.
func TestTheEndOfASessionIsWrittenAlthoughItsCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		audit := filepath.Join(t.TempDir(), "audit.json")
		guard := newGuard(t, "default: ops\nclients: [{name: ops, lock: ['*'], admin: [force]}]\n", audit)
		core, lines := observer.New(zap.InfoLevel)
		s := startGuarded(t, zap.New(core), func(*broker.Config) {}, nil, guard)
		here, moving := s.open(&lockdv1.Open{}), s.open(&lockdv1.Open{Features: []lockdv1.Feature{
			lockdv1.Feature_FEATURE_RESUME,
		}})
		here.take(1, "job")
		synctest.Wait()
		moving.breaks() // it is at no replica then
		ctx, leave, err := s.srv.Local().Visit(t.Context(), "10.0.0.1:1", nil, nil, 0)
		must(t, err)
		defer leave()
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		for _, c := range []*stream{here, moving} {
			id := c.opened.GetSessionId()
			got, err := lockdv1.NewAdminServiceClient(s.srv.Local()).EndSession(ctx,
				&lockdv1.EndSessionRequest{SessionId: id, Why: "it hangs"})
			if err != nil || !got.GetEnded() || got.GetReleased() != (c == here) {
				t.Errorf("got %v, %v", got, err)
			}
			logged := lines.FilterMessage("a session was to be ended").FilterField(zap.Bool("ended", true))
			if logged.FilterField(zap.String("session", id)).Len() != 1 {
				t.Errorf("the log has %v", lines.All())
			}
		}
		wantReason(t, here.end(), "SESSION_EXPIRED")
		guard.Close()
		written := 0
		for _, e := range auditedIn(t, audit, security.EventSessionEnded) {
			ours := e.Session == here.opened.GetSessionId() || e.Session == moving.opened.GetSessionId()
			if e.Result == "OK" && ours && strings.Contains(e.Detail, "it hangs") {
				written++
			}
		}
		if written != 2 {
			t.Errorf("the audit has %d of 2 lines", written)
		}
	})
}

// Numbers of a replica tell of locks that are hidden from the caller: it is told none.
func TestTheStatusTellsNoMoreThanItsCallerMayKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for entry, hidden := range map[string]bool{
			"look: ['public:*']": true, "lock: ['*'], deny: ['secret']": true, "admin: [force, limit, drain]": true,
			"look: ['*']": false, "admin: [examine]": false,
		} {
			guard := newGuard(t, "default: it\nclients: [{name: it, "+entry+"}]\n", "")
			s := startGuarded(t, zap.NewNop(), func(*broker.Config) {}, nil, guard)
			s.open(&lockdv1.Open{})
			got, err := lockdv1.NewInspectServiceClient(s.conn).GetStatus(t.Context(), &lockdv1.GetStatusRequest{})
			must(t, err)
			told := got.GetSessions() == 1 && got.GetClientsFile() != ""
			if !got.GetReady() || got.GetHidden() != hidden || told == hidden {
				t.Errorf("%s: got %v", entry, got)
			}
		}
	})
}
