package grpcapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
)

// What happened to a name is told to those who may look at it, and so is how busy it was.
func TestTheHistoryOfANameIsForThoseWhoMayLookAtIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, "default: guest\nclients: [{name: guest, lock: ['mine:*']}]\n", "")
		s := startGuarded(t, zap.NewNop(), func(*broker.Config) {}, nil, guard)
		s.open(&lockdv1.Open{ClientName: "worker"}).take(1, "mine:1")
		for _, name := range []string{"theirs", "mine:2"} { // by somebody else
			_, _, err := s.b.AcquireOnce(t.Context(), request.Once{Name: name, Kind: lock.Exclusive, Lease: time.Hour})
			must(t, err)
		}
		time.Sleep(time.Second)

		inspect := lockdv1.NewInspectServiceClient(s.conn)
		mine, err := inspect.ListEvents(t.Context(), &lockdv1.ListEventsRequest{Name: "mine:1"})
		must(t, err)
		e := mine.GetEvents()
		if len(e) != 1 || e[0].GetWhat() != lockdv1.EventInfo_WHAT_GRANTED || e[0].GetClientName() != "worker" ||
			e[0].GetIdentity() != "guest" || e[0].GetSessionId() == "" || e[0].GetFence() == 0 ||
			e[0].GetAge().AsDuration() != time.Second {
			t.Errorf("it is told %v", mine)
		}
		_, err = inspect.ListEvents(t.Context(), &lockdv1.ListEventsRequest{Name: "theirs"})
		wantReason(t, err, "FORBIDDEN")
		for most, want := range map[uint32]int{0: 2, 1: 1} {
			busy, err := inspect.ListBusiest(t.Context(), &lockdv1.ListBusiestRequest{PageSize: most})
			must(t, err)
			if n := busy.GetNames(); len(n) != want || n[0].GetName() != "mine:1" || n[0].GetHolders() != 1 ||
				n[0].GetHeld() != 1 || n[0].GetTurnover() != 1 {
				t.Errorf("of %d names it is told %v", most, n)
			}
		}
	})
}

func TestAListOfEventsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWith(t, zap.NewNop(), func(cfg *broker.Config) { cfg.History = 100 }, nil)
		inspect := lockdv1.NewInspectServiceClient(s.conn)
		pool := lockdv1.NewLockServiceClient(s.conn)
		for limit := range uint32(250) {
			_, err := pool.SetLimit(t.Context(), &lockdv1.SetLimitRequest{Name: "pool", Limit: 1 + limit})
			must(t, err)
			time.Sleep(time.Second)
		}
		next, pages := uint32(151), 0
		all := count(t, func(token string) (int, string, error) {
			r, err := inspect.ListEvents(t.Context(),
				&lockdv1.ListEventsRequest{Name: "pool", PageSize: 30, PageToken: token})
			for _, e := range r.GetEvents() {
				if e.GetPermits() != next || e.GetPeer() == "" {
					t.Errorf("want %d, got %v", next, e)
				}
				next++
			}
			if m := r.GetMemories(); len(m) != 1 || m[0].GetReach().AsDuration() != 100*time.Second {
				t.Errorf("it reaches as far back as %v", m)
			}
			pages++
			return len(r.GetEvents()), r.GetNextPageToken(), err
		})
		if all != 100 || pages != 4 {
			t.Errorf("%d events on %d pages, want 100 on 4", all, pages)
		}
		r, err := inspect.ListEvents(t.Context(), &lockdv1.ListEventsRequest{
			Name: "pool", MaxAge: durationpb.New(20 * time.Second), MinAge: durationpb.New(11 * time.Second),
		})
		must(t, err)
		if e := r.GetEvents(); len(e) != 10 || e[0].GetPermits() != 231 {
			t.Errorf("of ten seconds it is told %v", e)
		}
	})
}
