package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// oneTruth checks an error that tells one reason, once, and not another one.
func oneTruth(t *testing.T, r result, want string, other ...string) {
	t.Helper()
	r.want(t, exitUnavailable, "", want+": ")
	if strings.Count(r.stderr, want) != 1 {
		t.Errorf("stderr %q, want %s once", r.stderr, want)
	}
	for _, text := range other {
		if strings.Contains(r.stderr, text) {
			t.Errorf("stderr %q, want no %q", r.stderr, text)
		}
	}
}

// awaitReady waits until a server says that it can reach its store, or cannot.
func awaitReady(t *testing.T, addr string, ready bool) {
	t.Helper()
	want := fmt.Sprintf(`"ready":%v,`, ready)
	harness.Until(t, want, func() bool {
		return strings.Contains(call(t, "--addr", addr, "-o", "json", "status").stdout, want)
	})
}

// While lockd knows that Redis is away nothing is taken, and nothing has to be undone.
func TestAcquireWithoutAStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := harness.StartLockdWith(t, "--redis", redis.Addr)
	redis.Kill()
	awaitReady(t, s.Addr, false)
	r := call(t, "--addr", s.Addr, "--connect-timeout", "300ms", "acquire", "n", "--lease", "90s")
	oneTruth(t, r, "BACKEND_UNAVAILABLE", "outcome is unknown", "its lease")
}

// A store that stops in the middle may have acted, whatever the next try is told. Each case has a store of its own:
// what goes on in the background after one of them could find out before the next one that the store is silent.
func TestChangesWithAStoreThatStops(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"acquire", "n", "--lease", "90s"},
		{"extend", "held", "ID", "--lease", "2m", "--kind", "exclusive"},
		{"release", "held", "ID", "--kind", "fair"},
		{"limit", "pool", "3"},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			s := harness.StartLockdWith(t, "--redis", redis.Addr)
			lease := parse(t, call(t, "--addr", s.Addr, "acquire", "held", "--lease", "90s").stdout, leaseKeys...)
			if i := slices.Index(args, "ID"); i > 0 {
				args[i] = lease["lease_id"].(string)
			}
			redis.Pause()
			r := call(t, append([]string{"--addr", s.Addr, "--connect-timeout", "4s"}, args...)...)
			redis.Resume()
			oneTruth(t, r, "OUTCOME_UNKNOWN", "BACKEND_UNAVAILABLE", "cannot be reached")
		})
	}
}

// The reason is told once, in front, and a name that looks like one stays whole.
func TestAReasonIsToldOnce(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"x (LOCK_NOT_HELD)", "x ()"} {
		want := fmt.Sprintf("LOCK_NOT_HELD: release %q: the lock is not held by this holder\n", name)
		r := call(t, "release", name, strings.Repeat("x", 26), "--kind", "fair")
		if r.code != exitFailed || r.stderr != "lockctl: "+want {
			t.Errorf("got %+v, want %q", r, want)
		}
	}
}

// unsteady loses the answer of the first ForceRelease.
type unsteady struct {
	lockdv1.UnimplementedAdminServiceServer
	asked atomic.Int32
}

func (u *unsteady) ForceRelease(context.Context, *lockdv1.ForceReleaseRequest) (*lockdv1.ForceReleaseResponse, error) {
	if u.asked.Add(1) == 1 {
		return nil, status.Error(grpccodes.Unavailable, "the connection broke")
	}
	return &lockdv1.ForceReleaseResponse{}, nil
}

// That nobody holds the lock at the second try may be the work of the first.
func TestUnlockWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	at := serve(t, func(s *grpc.Server) { lockdv1.RegisterAdminServiceServer(s, &unsteady{}) })
	r := call(t, "--admin-addr", at, "unlock", "n", "--kind", "exclusive", "--force", "--reason", "stuck")
	oneTruth(t, r, "OUTCOME_UNKNOWN", "not held")
}
