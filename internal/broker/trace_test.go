package broker_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// logged is a broker whose log a test reads.
type logged struct {
	tb    testing.TB
	b     *broker.Broker
	store *memstore.Store
}

func (l *logged) openAs(c session.Client) *broker.Session {
	l.tb.Helper()
	s, err := l.b.Open(broker.OpenRequest{Client: c})
	if err != nil {
		l.tb.Fatal(err)
	}
	return s
}

func observed(t *testing.T, level zapcore.Level) (*logged, *observer.ObservedLogs) {
	core, lines := observer.New(level)
	store := memstore.New()
	return &logged{t, startLogging(t, testConfig(), store, zap.New(core)).b, store}, lines
}

// line finds the only line with this text, and returns its fields.
func line(t *testing.T, lines *observer.ObservedLogs, text string) map[string]any {
	t.Helper()
	found := lines.FilterMessage(text).All()
	if len(found) != 1 {
		t.Fatalf("got %d lines %q among %v, want one", len(found), text, lines.All())
	}
	return found[0].ContextMap()
}

// has checks single fields.
func has(t *testing.T, got, want map[string]any) {
	t.Helper()
	for key, value := range want {
		if !reflect.DeepEqual(got[key], value) {
			t.Errorf("%s is %v, want %v, in %v", key, got[key], value, got)
		}
	}
}

func TestDebugLogTellsEachGrantReleaseAndLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := observed(t, zap.DebugLevel)
		s := l.openAs(session.Client{Name: "worker", Peer: "10.0.0.1:5"})
		s.Acquire(1, request.Acquire{Name: "job", Kind: lock.Fair, Holder: "h"})
		synctest.Wait()
		fence := uint64(s.Outbox().Take()[0].(session.Granted).Hold.Fence)
		about := map[string]any{
			"name": "job", "kind": "fair", "holder": "h", "session": s.ID(), "client": "worker", "fence": fence,
			"request_id": uint64(1),
		}
		has(t, line(t, lines, "granted"), about)
		s.Release(2, session.Hold{Name: "job", Kind: lock.Fair, Holder: "h"})
		synctest.Wait()
		about["request_id"] = uint64(2)
		has(t, line(t, lines, "released"), about)

		s.Acquire(3, request.Acquire{Name: "job", Kind: lock.Fair})
		synctest.Wait()
		l.store.Lose()
		s.Hear()
		time.Sleep(20 * time.Second)
		has(t, line(t, lines, "lost"), map[string]any{
			"name": "job", "kind": "fair", "session": s.ID(), "client": "worker", "reason": "data_loss", "holder": "#3",
		})
	})
}

func TestDebugLogTellsWhatASessionLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := observed(t, zap.DebugLevel)
		s := l.openAs(session.Client{Name: "worker"})
		s.Acquire(1, request.Acquire{Name: "job", Kind: lock.Exclusive})
		synctest.Wait()
		s.End(session.ErrSilent)
		has(t, line(t, lines, "lost"), map[string]any{"name": "job", "reason": "session_ended", "session": s.ID()})
	})
}

// However many locks are lost at once, there is one line, with the first names.
func TestLostDataIsToldInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := observed(t, zap.InfoLevel)
		s := l.openAs(session.Client{Name: "worker"})
		time.Sleep(500 * time.Millisecond) // what is lost is logged every second: the losses must not come at that moment
		for i := range 100 {
			s.Acquire(uint64(i+1), request.Acquire{Name: name(i), Kind: lock.Exclusive})
		}
		synctest.Wait()
		l.store.Lose()
		time.Sleep(10 * time.Second)
		s.Hear()
		time.Sleep(5 * time.Second)
		got := line(t, lines, "locks were lost")
		has(t, got, map[string]any{"reason": "data_loss", "count": int64(100)})
		if names := got["names"].([]any); len(names) != 5 {
			t.Errorf("got the names %v, want the first 5", names)
		}
	})
}

func TestSessionsThatAreLostWithLocksAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := observed(t, zap.InfoLevel)
		for range 30 {
			s := l.openAs(session.Client{Name: "worker", Peer: "10.0.0.1:5"})
			s.Acquire(1, request.Acquire{Name: "many", Kind: lock.Read})
			synctest.Wait()
			s.End(session.ErrSilent)
		}
		polite := l.openAs(session.Client{Name: "polite"})
		polite.Acquire(1, request.Acquire{Name: "mine", Kind: lock.Exclusive})
		synctest.Wait()
		polite.Goodbye()
		time.Sleep(3 * time.Second)
		told := lines.FilterMessage("a session ended with locks held").All()
		if len(told) != 10 {
			t.Fatalf("got %d lines for 30 sessions, want 10", len(told))
		}
		has(t, told[0].ContextMap(), map[string]any{
			"client": "worker", "peer": "10.0.0.1:5", "count": int64(1), "names": []any{"many"}, "released": false,
			"cause": session.ErrSilent.Error(),
		})
		has(t, line(t, lines, "more sessions ended with locks held"),
			map[string]any{"sessions": int64(20), "count": int64(20)})
	})
}

// A hot path that builds fields for a log nobody reads would show here.
func TestTracesCostNothingWhenDebugIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, lines := observed(t, zap.InfoLevel)
		s := l.openAs(session.Client{Name: "worker"})
		var e session.Event = session.Granted{ID: 1, Hold: session.Hold{Name: "job", Kind: lock.Exclusive, Fence: 1 << 40}}
		if n := testing.AllocsPerRun(100, func() { broker.Trace(s, e) }); n != 0 {
			t.Errorf("%v allocations for a line that is not written", n)
		}
		if lines.Len() > 0 {
			t.Errorf("got %v", lines.All())
		}
	})
}
