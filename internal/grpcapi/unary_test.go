package grpcapi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/session"
)

func TestUnaryLeaseFromAcquireToRelease(t *testing.T) {
	inBubble(t, func(s *server) {
		locks, ctx := lockdv1.NewLockServiceClient(s.conn), s.t.Context()
		got, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{Name: "job", Lease: seconds(10)})
		if err != nil || got.GetGranted() == nil {
			t.Fatalf("acquire: %v, %v", got, err)
		}
		lease := got.GetGranted()
		busy, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{Name: "job", Lease: seconds(10)})
		if n := busy.GetNotGranted(); err != nil || n.GetCause() != lockdv1.NotGranted_CAUSE_HELD ||
			n.GetRetryAfter().AsDuration() != 10*time.Second {
			t.Errorf("second acquire: %v, %v", busy, err)
		}
		longer, err := locks.Extend(ctx, &lockdv1.ExtendRequest{Name: "job", LeaseId: lease.GetLeaseId(), Lease: seconds(60)})
		if err != nil || longer.GetLease().GetValidFor().AsDuration() < 50*time.Second ||
			longer.GetLease().GetFence() != lease.GetFence() {
			t.Errorf("extend: %v, %v", longer, err)
		}
		state, err := locks.Get(ctx, &lockdv1.GetRequest{Name: "job"})
		if l := state.GetLock(); err != nil || !l.GetHeld() || l.GetTtl().AsDuration() != 60*time.Second ||
			l.GetFence() != lease.GetFence() {
			t.Errorf("get: %v, %v", state, err)
		}
		list, err := locks.List(ctx, &lockdv1.ListRequest{Prefix: "jo"})
		if err != nil || len(list.GetLocks()) != 1 || list.GetLocks()[0].GetName() != "job" {
			t.Errorf("list: %v, %v", list, err)
		}
		if _, err := locks.Release(ctx, &lockdv1.ReleaseRequest{Name: "job", LeaseId: lease.GetLeaseId()}); err != nil {
			t.Errorf("release: %v", err)
		}
		var trailer metadata.MD
		_, err = locks.Release(ctx, &lockdv1.ReleaseRequest{Name: "job", LeaseId: lease.GetLeaseId()}, grpc.Trailer(&trailer))
		if st := status.Convert(err); st.Code() != codes.FailedPrecondition || reasonOf(st) != "LOCK_NOT_HELD" ||
			!slices.Equal(trailer["lockd-reason"], []string{"LOCK_NOT_HELD"}) {
			t.Errorf("second release: %v, %v", err, trailer)
		}
	})
}

func TestUnaryWaitEndsWithItsDeadlineAndKeepsNothing(t *testing.T) {
	inBubble(t, func(s *server) {
		locks := lockdv1.NewLockServiceClient(s.conn)
		c := s.open(&lockdv1.Open{})
		c.take(1, "job")
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		_, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{Name: "job", Lease: seconds(10), Wait: seconds(60)})
		if status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if n := len(waiting(s.t, s.b, "job")); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

func TestClientsCannotDoWhatOperatorsDo(t *testing.T) {
	inBubble(t, func(s *server) {
		admin, ctx := lockdv1.NewAdminServiceClient(s.conn), s.t.Context()
		c := s.open(&lockdv1.Open{})
		c.take(1, "job")
		_, forced := admin.ForceRelease(ctx, &lockdv1.ForceReleaseRequest{Name: "job"})
		_, removed := admin.RemoveLimit(ctx, &lockdv1.RemoveLimitRequest{Name: "job"})
		_, adopted := admin.AdoptLimit(ctx, &lockdv1.AdoptLimitRequest{Name: "job", Limit: 1})
		_, drained := admin.Drain(ctx, &lockdv1.DrainRequest{})
		_, undrained := admin.Undrain(ctx, &lockdv1.UndrainRequest{})
		_, examined := admin.Examine(ctx, &lockdv1.ExamineRequest{})
		for _, err := range []error{forced, removed, adopted, drained, undrained, examined} {
			st := status.Convert(err)
			if st.Code() != codes.PermissionDenied || reasonOf(st) != "ADMIN_ONLY" ||
				!strings.Contains(st.Message(), "admin_listen") {
				t.Errorf("got %v, want ADMIN_ONLY with the word where to go", err)
			}
		}
		s.open(&lockdv1.Open{}) // it does not drain
		if state, err := s.b.Lock(ctx, "job"); err != nil || !state.Held {
			t.Errorf("got %+v, %v, want a lock that is held", state, err)
		}
		// Whoever may only look can look at both.
		for _, conn := range []*grpc.ClientConn{s.conn, s.admin} {
			r, err := lockdv1.NewInspectServiceClient(conn).ListHolds(ctx, &lockdv1.ListHoldsRequest{})
			if err != nil || len(r.GetHolds()) != 1 {
				t.Errorf("got %v, %v", r, err)
			}
		}
		// Nor can operators' address be used to lock.
		_, err := lockdv1.NewLockServiceClient(s.admin).Get(ctx, &lockdv1.GetRequest{Name: "job"})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
	})
}

func TestADrainCanBeTakenBack(t *testing.T) {
	inBubble(t, func(s *server) {
		admin, ctx := lockdv1.NewAdminServiceClient(s.admin), s.t.Context()
		undrain := func() bool {
			t.Helper()
			r, err := admin.Undrain(ctx, &lockdv1.UndrainRequest{})
			must(t, err)
			return r.GetDrained()
		}
		if undrain() {
			t.Error("what does not drain was drained")
		}
		health := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
			t.Helper()
			for _, service := range []string{"", "lockd.v1.SessionService", "lockd.v1.LockService"} {
				r, err := grpc_health_v1.NewHealthClient(s.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
				if err != nil || r.GetStatus() != want {
					t.Errorf("health of %q: %v, %v", service, r, err)
				}
			}
		}
		health(grpc_health_v1.HealthCheckResponse_SERVING)
		for range 2 {
			c := s.open(&lockdv1.Open{})
			drain, err := admin.Drain(ctx, &lockdv1.DrainRequest{Within: seconds(4)})
			if err != nil || drain.GetSessions() != 1 {
				t.Fatal(drain, err)
			}
			if got := c.recv().GetDraining(); got.GetReconnectWithin().AsDuration() > 4*time.Second {
				t.Errorf("got %v", got)
			}
			health(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			c.send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Goodbye{}})
			if err := s.b.Ready(); !errors.Is(err, session.ErrDraining) {
				t.Errorf("got %v, want ErrDraining", err)
			}
			<-s.b.Idle()
			if !undrain() {
				t.Error("it was not draining")
			}
			s.open(&lockdv1.Open{}).send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Goodbye{}})
			synctest.Wait()
			if err := s.b.Ready(); err != nil {
				t.Error(err)
			}
			health(grpc_health_v1.HealthCheckResponse_SERVING)
		}
		s.srv.NotServing()
		_, err := admin.Undrain(ctx, &lockdv1.UndrainRequest{})
		if got := reasonOf(status.Convert(err)); got != "DRAINING" {
			t.Errorf("a replica that stops: got %v, want DRAINING", err)
		}
	})
}

func TestStatus(t *testing.T) {
	inBubble(t, func(s *server) {
		a, b := s.open(&lockdv1.Open{}), s.open(&lockdv1.Open{})
		a.take(1, "x")
		a.take(2, "y")
		b.send(acquire(1, &lockdv1.Acquire{Name: "x"}))
		b.recv()
		time.Sleep(5 * time.Second)
		for _, draining := range []bool{false, true} {
			if draining {
				s.b.Drain(time.Second)
			}
			got, err := lockdv1.NewInspectServiceClient(s.conn).GetStatus(s.t.Context(), &lockdv1.GetStatusRequest{})
			must(t, err)
			want := &lockdv1.GetStatusResponse{
				Replica: "test", Version: "v0", Uptime: seconds(5), Ready: !draining, Draining: draining,
				Sessions: 2, Locks: 2, Waiters: 1, Store: "memory",
			}
			if !proto.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	})
}

func waiting(t testing.TB, b *broker.Broker, name string) []inspect.Waiter {
	t.Helper()
	in, err := b.Inspect(t.Context(), name, 1, 10)
	must(t, err)
	return in.Waiters
}
