package broker_test

import (
	"reflect"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// observed runs a test with a replica whose log is read.
func observed(t *testing.T, level zapcore.Level, test func(w *world, lines *observer.ObservedLogs)) {
	inWorld(t, func(w *world) {
		core, lines := observer.New(level)
		var there *world
		log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
			if e.Level > zap.DebugLevel {
				there.b.Status() // no mutex is held
			}
			return nil
		}))
		there = startLogging(w.t, testConfig(), w.store, log)
		there.store = w.store
		test(there, lines)
	})
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
	observed(t, zap.DebugLevel, func(w *world, lines *observer.ObservedLogs) {
		c := w.as("worker")
		g := c.takeAs(request.Acquire{Name: "job", Kind: lock.Fair, Holder: "h"})
		about := map[string]any{
			"name": "job", "kind": "fair", "holder": "h", "session": c.ID(), "client": "worker",
			"fence": uint64(g.Hold.Fence), "request_id": uint64(1),
		}
		has(t, line(t, lines, "granted"), about)
		c.release(g.Hold)
		about["request_id"] = uint64(2)
		has(t, line(t, lines, "released"), about)

		c.takeKind("job", lock.Fair)
		w.lose()
		c.Hear()
		time.Sleep(20 * time.Second)
		has(t, line(t, lines, "lost"), map[string]any{
			"name": "job", "kind": "fair", "session": c.ID(), "client": "worker", "reason": "data_loss", "holder": "#3",
		})
	})
}

func TestDebugLogTellsWhatASessionLeaves(t *testing.T) {
	observed(t, zap.DebugLevel, func(w *world, lines *observer.ObservedLogs) {
		c := w.as("worker")
		c.take("job")
		c.End(session.ErrSilent)
		has(t, line(t, lines, "lost"), map[string]any{"name": "job", "reason": "session_ended", "session": c.ID()})
	})
}

// However many locks are lost at once, there are few lines.
func TestLostDataIsToldInFewLines(t *testing.T) {
	observed(t, zap.InfoLevel, func(w *world, lines *observer.ObservedLogs) {
		c := w.as("worker")
		for i := range 100 {
			c.take(name(i))
		}
		w.lose()
		time.Sleep(10 * time.Second)
		c.Hear()
		time.Sleep(5 * time.Second)
		told := lines.FilterMessage("a lock was lost").All()
		if len(told) != 20 {
			t.Fatalf("got %d lines, want 20", len(told))
		}
		has(t, told[0].ContextMap(), map[string]any{"reason": "data_loss", "session": c.ID(), "client": "worker"})
	})
}

func TestSessionsThatAreLostWithLocksAreTold(t *testing.T) {
	observed(t, zap.InfoLevel, func(w *world, lines *observer.ObservedLogs) {
		for range 30 {
			c := w.as("worker")
			c.takeKind("many", lock.Read)
			c.End(session.ErrSilent)
		}
		polite := w.as("polite")
		polite.take("mine")
		polite.Goodbye()
		told := lines.FilterMessage("a session ended with locks held").All()
		if len(told) != 20 {
			t.Fatalf("got %d lines for 30 sessions, want 20", len(told))
		}
		has(t, told[0].ContextMap(), map[string]any{
			"client": "worker", "peer": "worker:1", "count": int64(1), "names": []any{"many"}, "released": false,
			"cause": session.ErrSilent.Error(),
		})
	})
}

func TestWhatAnOperatorEndsIsToldToBeReleased(t *testing.T) {
	observed(t, zap.InfoLevel, func(w *world, lines *observer.ObservedLogs) {
		c := w.as("worker")
		c.take("mine")
		if e, err := w.b.EndSession(w.t.Context(), c.ID(), byAlice); err != nil || !e.Ended {
			t.Fatalf("got %+v, %v", e, err)
		}
		told := lines.FilterMessage("a session ended with locks held").All()
		if len(told) != 1 {
			t.Fatalf("got %d lines, want 1", len(told))
		}
		has(t, told[0].ContextMap(), map[string]any{"names": []any{"mine"}, "released": true})
	})
}

// A hot path that builds fields for a log nobody reads would show here.
func TestTracesCostNothingWhenDebugIsOff(t *testing.T) {
	observed(t, zap.InfoLevel, func(w *world, lines *observer.ObservedLogs) {
		c := w.as("worker")
		var e session.Event = session.Granted{ID: 1, Hold: session.Hold{Name: "job", Kind: lock.Exclusive, Fence: 1 << 40}}
		if n := testing.AllocsPerRun(100, func() { broker.Trace(c.Session, e) }); n != 0 {
			t.Errorf("%v allocations for a line that is not written", n)
		}
		if lines.Len() > 0 {
			t.Errorf("got %v", lines.All())
		}
	})
}
