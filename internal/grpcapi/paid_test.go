package grpcapi_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/limits"
)

// TestAListIsPaidByWhoAskedAndNotByOperators looks at what the tenant of both addresses owes, beside another one: who
// is alone owes nothing.
func TestAListIsPaidByWhoAskedAndNotByOperators(t *testing.T) {
	inBubble(t, func(s *server) {
		const names = 500
		for i := range names {
			_, err := lockdv1.NewLockServiceClient(s.conn).Acquire(context.Background(), &lockdv1.AcquireRequest{
				Name: fmt.Sprint("paid/", i), LeaseId: fmt.Sprintf("lease-of-somebody-%06d", i), Lease: durationpb.New(time.Hour),
			})
			must(t, err)
		}
		s.b.Tenants().Spend(limits.TenantOf("192.0.2.7:1"), time.Millisecond)
		waits := func() time.Duration { return s.b.Tenants().Spend(limits.TenantOf("bufconn"), 0) }
		for owes := waits(); owes == 0; owes = waits() { // the burst is spent
			s.b.Tenants().Spend(limits.TenantOf("bufconn"), time.Millisecond)
		}
		list := func(conn *grpc.ClientConn) {
			t.Helper()
			page, err := lockdv1.NewInspectServiceClient(conn).ListHolds(
				context.Background(), &lockdv1.ListHoldsRequest{PageSize: names})
			must(t, err)
			if n := len(page.GetHolds()); n != names {
				t.Fatalf("%d names of %d are listed", n, names)
			}
		}
		before := waits()
		list(s.admin)
		if after := waits(); after > before {
			t.Errorf("it waits for %v after an operator's list, and %v before", after, before)
		}
		list(s.conn)
		if after := waits(); after < names*limits.Looked {
			t.Errorf("it waits for %v after its own list of %d names", after, names)
		}
	})
}
