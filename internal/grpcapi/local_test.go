package grpcapi_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/grpcapi"
)

func localReason(err error) string {
	if r, ok := errors.AsType[*grpcapi.Refusal](err); ok {
		return r.Failure().GetReason()
	}
	return "OK"
}

// What is called from within this process meets the checks that a call over the network meets.
func TestLocalCallsAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, `
clients:
- {name: guest, token_sha256: ["`+hashOfToken("guest")+`"], look: ["public"]}
- {name: ops, token_sha256: ["`+hashOfToken("ops")+`"], lock: ["*"], admin: [force]}
`, "")
		s := startGuarded(t, zap.NewNop(), func(*broker.Config) {}, nil, guard)
		l := s.srv.Local()
		as := func(token string) (inspect func(string) string, force func() string) {
			ctx := l.As(t.Context(), "127.0.0.1:5", nil, token)
			return func(name string) string {
					_, err := l.Inspect().Inspect(ctx, &lockdv1.InspectRequest{Name: name})
					return localReason(err)
				}, func() string {
					_, err := l.Admin().ForceRelease(ctx, &lockdv1.ForceReleaseRequest{Name: "public", Why: "a test"})
					return localReason(err)
				}
		}
		for _, row := range []struct{ token, public, hidden, force string }{
			{"", "NO_CREDENTIALS", "NO_CREDENTIALS", "NO_CREDENTIALS"},
			{"Bearer wrong", "TOKEN_INVALID", "TOKEN_INVALID", "TOKEN_INVALID"},
			{"Bearer guest", "OK", "FORBIDDEN", "FORBIDDEN"},
			{"Bearer ops", "OK", "OK", "OK"},
		} {
			inspect, force := as(row.token)
			if p, h, f := inspect("public"), inspect("hidden"), force(); p != row.public || h != row.hidden || f != row.force {
				t.Errorf("%q: got %s, %s and %s, want %+v", row.token, p, h, f, row)
			}
		}
		inspect, _ := as("Bearer ops")
		if got := inspect("\xff"); got != "INVALID_MESSAGE" {
			t.Errorf("a name that is not UTF-8: %s", got)
		}
		// A certificate that TLS did not verify counts for nothing.
		ctx := l.As(t.Context(), "127.0.0.1:5", &tls.ConnectionState{}, "")
		if _, err := l.Who(ctx); localReason(err) != "NO_CREDENTIALS" {
			t.Errorf("got %v", err)
		}
		_, err := l.Admin().Drain(l.As(t.Context(), "", nil, "Bearer ops"), &lockdv1.DrainRequest{})
		if err == nil {
			t.Error("what is not needed can be called")
		}
	})
}

func TestLocalCallsChangeNothingWithoutAClientsFile(t *testing.T) {
	inBubble(t, func(s *server) {
		l := s.srv.Local()
		ctx := l.As(t.Context(), "127.0.0.1:5", nil, "")
		_, force := l.Admin().ForceRelease(ctx, &lockdv1.ForceReleaseRequest{Name: "a"})
		_, limit := l.Locks().SetLimit(ctx, &lockdv1.SetLimitRequest{Name: "a", Limit: 1})
		_, look := l.Inspect().GetStatus(ctx, &lockdv1.GetStatusRequest{})
		if localReason(force) != "ADMIN_ONLY" || localReason(limit) != "ADMIN_ONLY" || look != nil {
			t.Errorf("got %v, %v and %v", force, limit, look)
		}
	})
}

func hashOfToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
