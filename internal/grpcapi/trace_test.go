package grpcapi_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// inLoggedBubble is inBubble with a log that the test reads.
func inLoggedBubble(t *testing.T, level zapcore.Level, test func(s *server, lines *observer.ObservedLogs)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(level)
		test(startLogging(t, zap.New(core)), lines)
	})
}

// line checks single fields of the only line with this text.
func line(t testing.TB, lines *observer.ObservedLogs, text string, want map[string]any) {
	t.Helper()
	found := lines.FilterMessage(text).All()
	if len(found) != 1 {
		t.Fatalf("got %d lines %q among %v, want one", len(found), text, lines.All())
	}
	got := found[0].ContextMap()
	for key, value := range want {
		if !reflect.DeepEqual(got[key], value) {
			t.Errorf("%s: %s is %v, want %v", text, key, got[key], value)
		}
	}
}

func TestDebugLogTellsEachRequest(t *testing.T) {
	inLoggedBubble(t, zap.DebugLevel, func(s *server, lines *observer.ObservedLogs) {
		c := s.open(&lockdv1.Open{ClientName: "worker"})
		c.send(acquire(7, &lockdv1.Acquire{
			Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_FAIR, Holder: "h",
			Annotation: "why",
		}))
		fence := c.recv().GetGranted().GetHolds()[0].GetFence()
		about := map[string]any{
			"session": c.opened.GetSessionId(), "client": "worker", "peer": "bufconn", "request_id": uint64(7),
			"request": "acquire",
			"name":    "job", "kind": "fair", "holder": "h", "annotation": "why",
		}
		line(s.t, lines, "request", about)
		line(s.t, lines, "granted", map[string]any{
			"name": "job", "kind": "fair", "holder": "h", "fence": fence,
			"request_id": uint64(7),
		})
	})
}

func TestDebugLogTellsEachUnaryCallWithoutItsSecrets(t *testing.T) {
	const secret = "0123456789012345678901-secret"
	inLoggedBubble(t, zap.DebugLevel, func(s *server, lines *observer.ObservedLogs) {
		locks, ctx := lockdv1.NewLockServiceClient(s.conn), s.t.Context()
		got, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{
			Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Lease: seconds(10), LeaseId: secret, ClientName: "cron",
		})
		must(s.t, err)
		line(s.t, lines, "call", map[string]any{
			"method": "/lockd.v1.LockService/Acquire", "code": "OK", "name": "job", "kind": "exclusive", "client": "cron",
			"fence": got.GetGranted().GetFence(), "peer": "bufconn",
		})
		_, _ = locks.Extend(ctx, &lockdv1.ExtendRequest{
			Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, LeaseId: secret, Lease: seconds(10),
		})
		_, _ = locks.Release(ctx, &lockdv1.ReleaseRequest{
			Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE,
			LeaseId: secret,
		})
		_, _ = s.refuses(&lockdv1.Open{
			Resume: &lockdv1.Resume{SessionId: "11111111-1111-4111-8111-111111111111", ResumeToken: secret},
		})
		for _, l := range lines.All() {
			if text := fmt.Sprint(l.Message, l.ContextMap()); strings.Contains(text, "secret") {
				s.t.Errorf("a secret is logged: %s", text)
			}
		}
		if n := lines.FilterMessage("call").Len(); n != 3 {
			s.t.Errorf("got %d calls, want 3", n)
		}
	})
}

func TestLogTellsWhoReleasedByForceAndDrained(t *testing.T) {
	inLoggedBubble(t, zap.InfoLevel, func(s *server, lines *observer.ObservedLogs) {
		c := s.open(&lockdv1.Open{ClientName: "worker"})
		hold := c.take(1, "job").GetHolds()[0]
		admin, ctx := lockdv1.NewAdminServiceClient(s.admin), s.t.Context()
		why := "stuck\x1b[2J since noon"
		if _, err := admin.ForceRelease(ctx,
			&lockdv1.ForceReleaseRequest{Name: "job", By: "alice@laptop", Why: why}); err != nil {
			s.t.Fatal(err)
		}
		owner := c.opened.GetSessionId() + ":" + hold.GetHolder()
		line(s.t, lines, "released by force", map[string]any{
			"name": "job", "kind": "exclusive", "peer": "bufconn", "released": true, "by": "alice@laptop", "why": why,
			"holders": []any{map[string]any{
				"owner": owner, "session": c.opened.GetSessionId(), "client": "worker", "peer": "bufconn", "replica": s.b.Replica(),
			}},
		})
		if lost := c.recv().GetLost(); lost.GetBy() != "alice@laptop" || lost.GetWhy() != why {
			s.t.Errorf("the holder is told %v", lost)
		}
		synctest.Wait()
		line(s.t, lines, "a lock was lost", map[string]any{
			"name": "job", "kind": "exclusive", "owner": owner, "fence": hold.GetFence(), "session": c.opened.GetSessionId(),
			"client": "worker", "peer": "bufconn", "by": "alice@laptop", "why": why, "reason": "forced", "more": int64(0),
		})
		if _, err := admin.Drain(ctx, &lockdv1.DrainRequest{}); err != nil {
			s.t.Fatal(err)
		}
		line(s.t, lines, "drain was asked for", map[string]any{"peer": "bufconn"})
		if _, err := admin.Undrain(ctx, &lockdv1.UndrainRequest{}); err != nil {
			s.t.Fatal(err)
		}
		line(s.t, lines, "the drain was taken back", map[string]any{"peer": "bufconn"})
	})
}
