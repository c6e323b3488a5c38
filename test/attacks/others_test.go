package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// as is a connection of somebody.
func (v *victim) as(t *testing.T, token string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(v.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(shown(func() string { return bearer(token) })))
	harness.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// answer is the reason that lockd gives, or the code of an error that is not lockd's.
func answer(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return status.Code(err).String()
}

// What belongs to somebody else is for an attacker as if it did not exist, also where he may use the name. Without a
// clients file he has that by its secrets only, and not by what everybody may see of it.
func TestWhatIsOthersDoesNotExist(t *testing.T) {
	for _, guard := range []bool{false, true} {
		t.Run(map[bool]string{false: "without a secret", true: "of a client"}[guard], func(t *testing.T) { reach(t, guard) })
	}
}

func reach(t *testing.T, guard bool) {
	v := victimOf(t, nil, guard)
	honest, attacker := v.as(t, honestToken), v.as(t, attackerToken)
	const name = "shared"
	got, err := lockdv1.NewLockServiceClient(honest).Acquire(t.Context(), &lockdv1.AcquireRequest{
		Name: name, Lease: durationpb.New(time.Minute), Annotation: "a secret",
	})
	harness.Must(t, err)
	open := func(cc *grpc.ClientConn, m *lockdv1.Open) (*lockdv1.Opened, error) {
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		s, err := lockdv1.NewSessionServiceClient(cc).Session(ctx)
		harness.Must(t, err)
		_ = s.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: m}})
		r, err := s.Recv()
		return r.GetOpened(), err
	}
	session, err := open(honest, &lockdv1.Open{Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}})
	harness.Must(t, err)
	locks := lockdv1.NewLockServiceClient(attacker)
	for what, ask := range map[string]func(lease, session, token string) error{
		"release": func(lease, _, _ string) error {
			_, err := locks.Release(t.Context(), &lockdv1.ReleaseRequest{Name: name, LeaseId: lease})
			return err
		},
		"extend": func(lease, _, _ string) error {
			_, err := locks.Extend(t.Context(), &lockdv1.ExtendRequest{
				Name: name, LeaseId: lease, Lease: durationpb.New(time.Hour),
			})
			return err
		},
		"acquire again": func(lease, _, _ string) error {
			r, err := locks.Acquire(t.Context(), &lockdv1.AcquireRequest{
				Name: name, LeaseId: lease, Lease: durationpb.New(time.Minute),
			})
			if r.GetGranted() != nil {
				return fmt.Errorf("it was granted: %v", r)
			}
			return err
		},
		"resume": func(_, session, token string) error {
			_, err := open(attacker, &lockdv1.Open{
				Resume: &lockdv1.Resume{SessionId: session, ResumeToken: token, Epoch: 2},
			})
			return err
		},
	} {
		const nobodys = "01234567-89ab-4cde-8f01-23456789abcd"
		lease, token := got.GetGranted().GetLeaseId(), session.GetResumeToken()
		if !guard {
			shown, err := lockdv1.NewInspectServiceClient(attacker).Inspect(t.Context(), &lockdv1.InspectRequest{Name: name})
			harness.Must(t, err)
			lease, _, _ = strings.Cut(shown.GetHolders()[0].GetOwner(), ":")
			token = "a guess"
		}
		theirs := ask(lease, session.GetSessionId(), token)
		none := ask(nobodys, nobodys, "none")
		if theirs == nil != (none == nil) || theirs != nil && theirs.Error() != none.Error() {
			t.Errorf("%s: got %v, and for what does not exist %v", what, theirs, none)
		}
	}
	_, err = lockdv1.NewLockServiceClient(honest).Release(t.Context(), &lockdv1.ReleaseRequest{
		Name: name, LeaseId: got.GetGranted().GetLeaseId(),
	})
	harness.Must(t, err)
	if !guard {
		return // everybody may look at everything
	}
	inspect := lockdv1.NewInspectServiceClient(attacker)
	holds, err := inspect.ListHolds(t.Context(), &lockdv1.ListHoldsRequest{})
	harness.Must(t, err)
	sessions, err := inspect.ListSessions(t.Context(), &lockdv1.ListSessionsRequest{})
	harness.Must(t, err)
	if text := holds.String() + sessions.String(); strings.Contains(text, "held") || strings.Contains(text, "honest") {
		t.Errorf("it is shown %s", text)
	}
}

// No name reaches a key that is not that of a lock, by whatever asks for it.
func TestNamesReachKeysOfLocksOnly(t *testing.T) {
	for _, guard := range []bool{false, true} {
		redis := redistest.Start(t).Addr
		v := victimOf(t, nil, guard, "LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR="+redis)
		locks := lockdv1.NewLockServiceClient(v.as(t, attackerToken))
		for _, name := range []string{
			"redisson_lock_token:{x}", "redisson_lock_token:x", "redisson_lock_queue:{x}", "redisson_lock_timeout:{x}",
			"{x}:timeout", "{x}:write:lockd_fence", "{x}:rwlock_timeout:1", "lockd:session:{x}", "lockd:session:x",
			"lockd_lock_x", "lockd_odd:x", "redisson_rwlock:{x}",
		} {
			_, acquired := locks.Acquire(t.Context(), &lockdv1.AcquireRequest{Name: name, Lease: durationpb.New(time.Minute)})
			_, limited := locks.SetLimit(t.Context(), &lockdv1.SetLimitRequest{Name: name, Limit: 1})
			for what, err := range map[string]error{"Acquire": acquired, "SetLimit": limited} {
				if got := answer(err); got != "NAME_RESERVED" && got != "INVALID_NAME" {
					t.Errorf("%s %q: got %v", what, name, err)
				}
			}
		}
		if guard {
			_, err := locks.SetLimit(t.Context(), &lockdv1.SetLimitRequest{Name: "held 1", Limit: 1})
			if got := answer(err); got != "FORBIDDEN" {
				t.Errorf("a limit of somebody else: got %v", err)
			}
		}
	}
}

// forgeries end a line, begin one of ours, and tell a terminal what to do.
var forgeries = []string{
	"x\n{\"level\":\"error\",\"msg\":\"forged\",\"event\":\"forged\"}", "x\r\x1b[2J\x1b]0;owned\x07",
	"x\u202e\u2066forged", "x\u0085\u2028{\"event\":\"forged\"}", "\"},{\"event\":\"forged\"}", "x\x9b31m",
}

// Texts of clients forge no line of the log or of the audit, and nothing for a terminal.
func TestTextsForgeNothing(t *testing.T) {
	for _, guard := range []bool{false, true} {
		t.Run(map[bool]string{false: "nobody's", true: "of a client"}[guard], func(t *testing.T) { forge(t, guard) })
	}
}

func forge(t *testing.T, guard bool) {
	v := victimOf(t, nil, guard, "LOCKD_LOG_LEVEL=debug")
	conn := v.as(t, attackerToken)
	locks, admin := lockdv1.NewLockServiceClient(conn), lockdv1.NewAdminServiceClient(conn)
	for _, text := range forgeries {
		for _, name := range []string{text, "forbidden " + text, "fine"} {
			_, _ = locks.Acquire(t.Context(), &lockdv1.AcquireRequest{
				Name: name, Lease: durationpb.New(time.Minute), ClientName: text, Annotation: text,
			})
			_, _ = admin.ForceRelease(t.Context(), &lockdv1.ForceReleaseRequest{Name: name, By: text, Why: text})
			_, _ = locks.SetLimit(t.Context(), &lockdv1.SetLimitRequest{Name: name, Limit: 1})
		}
		stranger := lockdv1.NewLockServiceClient(v.as(t, strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' { // gRPC sends no other ones
				return '.'
			}
			return r
		}, text)))
		_, _ = stranger.Acquire(t.Context(), &lockdv1.AcquireRequest{Name: "fine", Lease: durationpb.New(time.Minute)})
		visit(t.Context(), conn, &lockdv1.Open{ClientName: text, Labels: map[string]string{"label": text}})
	}
	var audit []byte
	harness.Until(t, "the log has them", func() bool {
		return strings.Count(v.Stderr.String(), "Acquire") >= 3*len(forgeries)
	})
	harness.Until(t, "the audit has them", func() bool {
		if !guard {
			return true
		}
		audit, _ = os.ReadFile(v.audit)
		return strings.Count(string(audit), "\"denied\"") >= len(forgeries)
	})
	for what, all := range map[string]string{"log": v.Stderr.String(), "audit": string(audit)} {
		for line := range strings.Lines(all) {
			var said struct{ Msg, Event string }
			if err := json.Unmarshal([]byte(line), &said); err != nil || said.Msg == "forged" || said.Event == "forged" {
				t.Errorf("the %s has %q (%v)", what, line, err)
			}
			for _, r := range strings.TrimSuffix(line, "\n") {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == unicode.ReplacementChar {
					t.Errorf("the %s has %U in %q", what, r, line)
				}
			}
		}
	}
}
