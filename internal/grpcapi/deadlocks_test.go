package grpcapi_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/lock"
)

func TestADeadlockIsToldWithItsCircle(t *testing.T) {
	circle := deadlock.Deadlock{Omitted: 3, Members: []deadlock.Member{{
		Owner: "s:#1", Want: deadlock.Want{Name: "door", Kind: lock.Fair}, Age: time.Second, HeldBy: "r:#2", Fence: 7,
		About: deadlock.About{
			Session: "s", Client: "billing", Peer: "host:1", Replica: "east", Annotation: "nightly",
			Fails: true,
		},
	}}}
	st := status.Convert(grpcapi.ToStatus(fmt.Errorf("acquire: %w", &deadlock.Error{Deadlock: circle})))
	if st.Code() != codes.Aborted || reasonOf(st) != "DEADLOCK" {
		t.Fatalf("got %v %s", st.Code(), reasonOf(st))
	}
	for _, detail := range st.Details() {
		d, ok := detail.(*lockdv1.Deadlock)
		if !ok {
			continue
		}
		m := d.GetMembers()[0]
		if d.GetOmitted() != 3 || m.GetName() != "door" || m.GetKind() != lockdv1.LockKind_LOCK_KIND_FAIR ||
			m.GetOwner() != "s:#1" ||
			m.GetSessionId() != "s" || m.GetClientName() != "billing" || m.GetPeer() != "host:1" || m.GetReplica() != "east" ||
			m.GetAnnotation() != "nightly" || m.GetAge().AsDuration() != time.Second || m.GetTimeLeft() != nil ||
			m.GetHeldBy() != "r:#2" || m.GetFence() != 7 || !m.GetFails() {
			t.Errorf("got %v", d)
		}
		return
	}
	t.Error("the circle is not told")
}
