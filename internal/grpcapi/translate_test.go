package grpcapi_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	exclusive = lockdv1.LockKind_LOCK_KIND_EXCLUSIVE
	fair      = lockdv1.LockKind_LOCK_KIND_FAIR
	read      = lockdv1.LockKind_LOCK_KIND_READ
	write     = lockdv1.LockKind_LOCK_KIND_WRITE
	semaphore = lockdv1.LockKind_LOCK_KIND_SEMAPHORE
)

func item(name string, k lockdv1.LockKind, permits, limit uint32) *lockdv1.AcquireItem {
	return &lockdv1.AcquireItem{Name: name, Kind: k, Permits: permits, Limit: limit}
}

type (
	ais = []*lockdv1.AcquireItem
	its = []request.Item
)

func TestWhatAnAcquireAsksFor(t *testing.T) {
	one := func(name string, k lock.Kind, permits, limit uint32) request.Item {
		return request.Item{Name: name, Kind: k, Permits: permits, Limit: limit}
	}
	x := lock.Exclusive
	for name, row := range map[string]struct {
		acquire *acq
		want    its
	}{
		"nothing":      {&acq{}, its{one("", x, 0, 0)}},
		"a name":       {&acq{Name: "a", Kind: fair}, its{one("a", lock.Fair, 0, 0)}},
		"one permit":   {&acq{Name: "a", Permits: 1}, its{one("a", x, 0, 0)}},
		"permits":      {&acq{Name: "a", Kind: semaphore, Permits: 3, Limit: 9}, its{one("a", lock.Semaphore, 3, 9)}},
		"one of names": {&acq{Names: []string{"a"}, Kind: read}, its{one("a", lock.Read, 0, 0)}},
		"names":        {&acq{Names: []string{"b", "a"}}, its{one("b", x, 0, 0), one("a", x, 0, 0)}},
		"one of items": {&acq{Items: ais{item("a", read, 0, 0)}}, its{one("a", lock.Read, 0, 0)}},
		"names, permits": {
			&acq{Names: []string{"a", "b"}, Kind: semaphore, Permits: 2},
			its{one("a", lock.Semaphore, 2, 0), one("b", lock.Semaphore, 2, 0)},
		},
		"items": {
			&acq{Items: ais{item("c", semaphore, 0, 4), item("a", 0, 0, 0), item("b", exclusive, 1, 0)}},
			its{one("c", lock.Semaphore, 0, 4), one("a", x, 0, 0), one("b", x, 0, 0)},
		},
		"the same name twice": { // the broker's to judge
			&acq{Items: ais{item("a", read, 0, 0), item("a", write, 0, 0)}},
			its{one("a", lock.Read, 0, 0), one("a", lock.Write, 0, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := grpcapi.ToAcquire(row.acquire)
			must(t, err)
			got := append(its{{Name: r.Name, Kind: r.Kind, Permits: r.Permits, Limit: r.Limit}}, r.More...)
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestAGrantHasItsHoldsInOrder(t *testing.T) {
	hold := func(name string, k lock.Kind, f lock.Fence) session.Hold {
		return session.Hold{Name: name, Kind: k, Holder: "#7", Fence: f}
	}
	m := grpcapi.FromEvent(session.Granted{
		ID: 7, Hold: hold("b", lock.Semaphore, 3),
		More:  []session.Hold{hold("c", lock.Read, 1), hold("a", lock.Write, 2)},
		Count: 1, Auto: true,
	})
	var got []string
	for _, h := range m.GetGranted().GetHolds() {
		got = append(got, fmt.Sprint(h.GetName(), h.GetKind(), h.GetHolder(), h.GetFence()))
	}
	want := []string{fmt.Sprint("b", semaphore, "#7", 3), fmt.Sprint("c", read, "#7", 1), fmt.Sprint("a", write, "#7", 2)}
	if !reflect.DeepEqual(got, want) || m.GetRequestId() != 7 || !m.GetGranted().GetAuto() {
		t.Errorf("got %v, want %v", m, want)
	}
	if q := grpcapi.FromEvent(session.Queued{ID: 1, Position: 12}).GetQueued(); q.GetPosition() != 12 {
		t.Errorf("got %v", q)
	}
}

// A fixed lease that ended before its grant could be written is not told as one. An auto lease was renewed meanwhile.
func TestAGrantThatEndedBeforeItIsWrittenIsNone(t *testing.T) {
	g := session.Granted{ID: 7, Hold: session.Hold{Name: "n", Fence: 1}, Validity: session.Validity{Until: time.Now()}}
	m := grpcapi.FromEvent(g)
	if code := m.GetResult().GetFailure().GetCode(); m.GetRequestId() != 7 || code != int32(codes.Unavailable) {
		t.Errorf("got %v, want an unknown outcome", m)
	}
	g.Auto = true
	if m := grpcapi.FromEvent(g); m.GetGranted() == nil {
		t.Errorf("got %v, want a grant", m)
	}
}
