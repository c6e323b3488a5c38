package grpcapi_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

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

func TestWhatAnAcquireAsksFor(t *testing.T) {
	for name, row := range map[string]struct {
		acquire *lockdv1.Acquire
		want    []request.Item
	}{
		"nothing":    {&lockdv1.Acquire{}, []request.Item{{Kind: lock.Exclusive}}},
		"a name":     {&lockdv1.Acquire{Name: "a", Kind: fair}, []request.Item{{Name: "a", Kind: lock.Fair}}},
		"one permit": {&lockdv1.Acquire{Name: "a", Permits: 1}, []request.Item{{Name: "a", Kind: lock.Exclusive}}},
		"permits": {
			&lockdv1.Acquire{Name: "a", Kind: semaphore, Permits: 3, Limit: 9},
			[]request.Item{{Name: "a", Kind: lock.Semaphore, Permits: 3, Limit: 9}},
		},
		"one of names": {&lockdv1.Acquire{Names: []string{"a"}, Kind: read}, []request.Item{{Name: "a", Kind: lock.Read}}},
		"names": {
			&lockdv1.Acquire{Names: []string{"b", "a"}, Kind: write},
			[]request.Item{{Name: "b", Kind: lock.Write}, {Name: "a", Kind: lock.Write}},
		},
		"names, permits": {
			&lockdv1.Acquire{Names: []string{"a", "b"}, Kind: semaphore, Permits: 2},
			[]request.Item{{Name: "a", Kind: lock.Semaphore, Permits: 2}, {Name: "b", Kind: lock.Semaphore, Permits: 2}},
		},
		"one of items": {
			&lockdv1.Acquire{Items: []*lockdv1.AcquireItem{item("a", read, 0, 0)}},
			[]request.Item{{Name: "a", Kind: lock.Read}},
		},
		"items": {
			&lockdv1.Acquire{Items: []*lockdv1.AcquireItem{
				item("c", semaphore, 0, 4), item("a", 0, 0, 0),
				item("b", exclusive, 1, 0),
			}},
			[]request.Item{
				{Name: "c", Kind: lock.Semaphore, Limit: 4},
				{Name: "a", Kind: lock.Exclusive},
				{Name: "b", Kind: lock.Exclusive},
			},
		},
		"the same name twice": { // the broker's to judge
			&lockdv1.Acquire{Items: []*lockdv1.AcquireItem{item("a", read, 0, 0), item("a", write, 0, 0)}},
			[]request.Item{{Name: "a", Kind: lock.Read}, {Name: "a", Kind: lock.Write}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := grpcapi.ToAcquire(row.acquire)
			if err != nil {
				t.Fatal(err)
			}
			got := append([]request.Item{{Name: r.Name, Kind: r.Kind, Permits: r.Permits, Limit: r.Limit}}, r.More...)
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestWhatAnAcquireMustNotAskFor(t *testing.T) {
	items := func(i ...*lockdv1.AcquireItem) *lockdv1.Acquire { return &lockdv1.Acquire{Items: i} }
	for name, row := range map[string]struct {
		acquire       *lockdv1.Acquire
		field, reason string
	}{
		"name and names": {&lockdv1.Acquire{Name: "a", Names: []string{"b"}}, "name", "INVALID_NAME"},
		"name and items": {
			&lockdv1.Acquire{Name: "a", Items: items(item("b", 0, 0, 0)).Items}, "name",
			"INVALID_NAME",
		},
		"names and items": {
			&lockdv1.Acquire{Names: []string{"a"}, Items: items(item("b", 0, 0, 0)).Items}, "name",
			"INVALID_NAME",
		},
		"a kind for all items": {
			&lockdv1.Acquire{Kind: fair, Items: items(item("b", 0, 0, 0)).Items}, "kind",
			"INVALID_KIND",
		},
		"permits for all items": {
			&lockdv1.Acquire{Permits: 2, Items: items(item("b", semaphore, 0, 0)).Items}, "permits",
			"INVALID_PERMITS",
		},
		"a limit for all items": {
			&lockdv1.Acquire{Limit: 2, Items: items(item("b", semaphore, 0, 0)).Items}, "limit",
			"INVALID_PERMITS",
		},
		"permits of a lock": {&lockdv1.Acquire{Name: "a", Permits: 2}, "permits", "INVALID_PERMITS"},
		"a limit of a lock": {&lockdv1.Acquire{Name: "a", Kind: write, Limit: 1}, "limit", "INVALID_PERMITS"},
		"permits of several": {
			&lockdv1.Acquire{Names: []string{"a", "b"}, Kind: read, Permits: 2}, "permits",
			"INVALID_PERMITS",
		},
		"permits of one of items": {
			items(item("a", semaphore, 2, 2), item("b", fair, 2, 0)), "items[1].permits", "INVALID_PERMITS",
		},
		"a limit of one of items": {
			items(item("a", semaphore, 2, 2), item("b", 0, 0, 2)), "items[1].limit", "INVALID_PERMITS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := grpcapi.ToAcquire(row.acquire)
			invalid, ok := errors.AsType[*lock.InvalidError](err)
			if !ok || invalid.Field != row.field || invalid.Reason != row.reason {
				t.Errorf("got %+v, %v; want %s for %s", r, err, row.reason, row.field)
			}
		})
	}
}

// The text is part of what callers see, so it is ours and does not change from build to build.
func TestAnInvalidDurationIsToldInOurWords(t *testing.T) {
	_, err := grpcapi.ToAcquire(&lockdv1.Acquire{Name: "a", Wait: &durationpb.Duration{Seconds: 1, Nanos: -1}})
	if want := "wait: no duration, or one of more than 10,000 years"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
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

func TestALimitErrorTellsTheLimit(t *testing.T) {
	for _, limit := range []uint32{0, 5} {
		st := status.Convert(grpcapi.ToStatus(fmt.Errorf("secret: %w", &lock.LimitError{Limit: limit})))
		if st.Code() != codes.FailedPrecondition || reasonOf(st) != "LOCK_CONFIG_MISMATCH" ||
			st.Message() != (&lock.LimitError{Limit: limit}).Error() {
			t.Errorf("got %v", st)
		}
		info, ok := st.Details()[0].(*errdetails.ErrorInfo)
		if !ok || info.GetMetadata()["limit"] != fmt.Sprint(limit) {
			t.Errorf("got %v, want the limit %d", st.Details(), limit)
		}
	}
	st := status.Convert(grpcapi.ToStatus(lock.ErrKindMismatch))
	if st.Details()[0].(*errdetails.ErrorInfo).GetMetadata() != nil {
		t.Errorf("a name in use for something else has no limit: %v", st.Details())
	}
	if st := status.Convert(grpcapi.ToStatus(session.ErrUpgrade)); reasonOf(st) != "LOCK_UPGRADE" ||
		st.Code() != codes.FailedPrecondition {
		t.Errorf("got %v", st)
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
