package grpcapi_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/limits"
)

// clientLimit is what a client of gRPC accepts in one message unless it is told otherwise.
const clientLimit = 4 << 20

// crowd is 450 sessions with long labels. Each of the first 20 asks for 50 names, with long annotations.
type crowd struct {
	locks   lockdv1.LockServiceClient
	inspect lockdv1.InspectServiceClient
}

// amidCrowd runs a test in a bubble that has a crowd.
func amidCrowd(t *testing.T, name func(i int) string, test func(s *server, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, zap.NewNop(), func(cfg *broker.Config) { cfg.Limits.SessionsPerAddress = 1000 }, nil)
		test(s, newCrowd(s, name))
	})
}

func newCrowd(s *server, name func(i int) string) *crowd {
	labels := make(map[string]string)
	for i := range 32 {
		labels[fmt.Sprintf("%02d", i)] = strings.Repeat("v", 250)
	}
	for i := range 450 {
		c := s.open(&lockdv1.Open{ClientName: "crowd", Labels: labels})
		for j := range 50 {
			if i < 20 {
				c.send(acquire(uint64(j+1), &lockdv1.Acquire{Name: name(i*50 + j), Annotation: strings.Repeat("a", 4096)}))
				c.recv()
			}
		}
	}
	return &crowd{locks: lockdv1.NewLockServiceClient(s.conn), inspect: lockdv1.NewInspectServiceClient(s.conn)}
}

// count reads all pages of a list, as a client with the limits of gRPC does.
func count(t testing.TB, list func(token string) (n int, next string, err error)) (all int) {
	t.Helper()
	for token, more := "", true; more; more = token != "" {
		n, next, err := list(token)
		if err != nil {
			t.Error(err)
			return all
		}
		all, token = all+n, next
	}
	return all
}

func TestNoPageIsLargerThanAClientAccepts(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("%04d-%s", i, strings.Repeat("n", 500)) }
	amidCrowd(t, name, func(s *server, c *crowd) {
		t, ctx, limit := s.t, s.t.Context(), grpc.MaxCallRecvMsgSize(clientLimit)
		if n := count(t, func(token string) (int, string, error) {
			r, err := c.inspect.ListSessions(ctx, &lockdv1.ListSessionsRequest{PageSize: 1000, PageToken: token}, limit)
			return len(r.GetSessions()), r.GetNextPageToken(), err
		}); n != 450 {
			t.Errorf("%d sessions, want 450", n)
		}
		if n := count(t, func(token string) (int, string, error) {
			r, err := c.inspect.ListHolds(ctx,
				&lockdv1.ListHoldsRequest{PageSize: 1000, PageToken: token, Client: "crowd"}, limit)
			return len(r.GetHolds()), r.GetNextPageToken(), err
		}); n != 1000 {
			t.Errorf("%d leases, want 1000", n)
		}
		if n := count(t, func(token string) (int, string, error) {
			r, err := c.locks.List(ctx, &lockdv1.ListRequest{PageSize: 1000, PageToken: token}, limit)
			return len(r.GetLocks()), r.GetNextPageToken(), err
		}); n != 1000 {
			t.Errorf("%d names, want 1000", n)
		}
	})
}

// deaf is a connection of which nothing is read from some moment on, until it is closed.
type deaf struct {
	net.Conn

	now  *atomic.Bool
	over chan struct{}
	once sync.Once
}

func (d *deaf) Read(b []byte) (int, error) {
	if d.now.Load() {
		<-d.over
	}
	return d.Conn.Read(b)
}

func (d *deaf) Close() error {
	d.once.Do(func() { close(d.over) })
	return d.Conn.Close()
}

// Lists that are not read stay in memory: a client has few of them, until it reads them, leaves them or is gone.
func TestFewListsOfAClientWaitToBeRead(t *testing.T) {
	amidCrowd(t, func(i int) string { return fmt.Sprint(i) }, func(s *server, c *crowd) {
		t := s.t
		var off atomic.Bool
		conn := dial(t, func(ctx context.Context) (net.Conn, error) {
			c, err := s.lis.DialContext(ctx)
			return &deaf{Conn: c, now: &off, over: make(chan struct{})}, err
			// Windows that grow would fill the connection: then gRPC frees nothing until it is read or closed.
		}, grpc.WithStaticConnWindowSize(1<<16))
		defer func() { _ = conn.Close() }()
		list := func(ctx context.Context, locks lockdv1.LockServiceClient) error {
			_, err := locks.List(ctx, &lockdv1.ListRequest{PageSize: 1000})
			return err
		}
		must(t, list(t.Context(), lockdv1.NewLockServiceClient(conn)))
		off.Store(true)
		ctx, leave := context.WithCancel(t.Context())
		unread := func(n int) {
			for range n {
				go func() { _ = list(ctx, lockdv1.NewLockServiceClient(conn)) }()
			}
			synctest.Wait()
		}
		unread(limits.Lists)
		wantReason(t, list(t.Context(), c.locks), "QUOTA_LISTS")
		leave()
		synctest.Wait()
		must(t, list(t.Context(), c.locks))
		ctx = t.Context()
		unread(limits.Lists)
		wantReason(t, list(t.Context(), c.locks), "QUOTA_LISTS")
		_ = conn.Close()
		synctest.Wait()
		for range 3 * limits.Lists {
			must(t, list(t.Context(), c.locks))
		}
	})
}

func TestNoListOfWaitersIsLargerThanAClientAccepts(t *testing.T) {
	name := "job" + strings.Repeat("n", 500)
	amidCrowd(t, func(int) string { return name }, func(s *server, c *crowd) {
		t, ctx, limit := s.t, s.t.Context(), grpc.MaxCallRecvMsgSize(clientLimit)
		ws, err := c.inspect.ListWaiters(ctx, &lockdv1.ListWaitersRequest{Name: name, PageSize: 1000}, limit)
		if err != nil || len(ws.GetWaiters()) < 600 {
			t.Errorf("%d waiters, %v", len(ws.GetWaiters()), err)
		}
		r, err := c.inspect.Inspect(ctx, &lockdv1.InspectRequest{Name: name, MaxWaiters: 1000, MaxHolders: 1000}, limit)
		if err != nil || len(r.GetHolders()) != 1 || len(r.GetWaiters()) < 300 {
			t.Errorf("%d holders and %d waiters, %v", len(r.GetHolders()), len(r.GetWaiters()), err)
		}
	})
}
