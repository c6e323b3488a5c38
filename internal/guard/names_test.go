package guard

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// called is a replica with a name.
type called struct {
	*Guard
	log *observer.ObservedLogs
}

func beginNames(t *testing.T, store Store, name, id string) called {
	t.Helper()
	core, log := observer.New(zapcore.InfoLevel)
	r := Replica{Text: "the same", Name: name, ID: id}
	n, err := Begin(store, r, zap.New(core), prometheus.NewRegistry(), never(t))
	if err != nil {
		t.Fatal(err)
	}
	return called{n, log}
}

// tells checks how many others have the name, in the metric and in the finding.
func (c called) tells(t *testing.T, others int) {
	t.Helper()
	var m dto.Metric
	if err := c.shared.Write(&m); err != nil {
		t.Fatal(err)
	}
	want := lock.SeverityOK
	if others > 0 {
		want = lock.SeverityWarning
	}
	if f := c.Examine()[2]; m.GetGauge().GetValue() != float64(others) || f.Severity != want || f.Check != "REPLICA_NAME" {
		t.Errorf("got %v and %+v, want %d others", m.GetGauge().GetValue(), f, others)
	}
}

func TestTwoReplicasOfOneNameNoticeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shared{Peers: memstore.New()}
		first, other := beginNames(t, store, "east", "1"), beginNames(t, store, "west", "2")
		defer first.Close()
		defer other.Close()
		time.Sleep(time.Minute)
		first.tells(t, 0)
		if first.log.Len() != 0 {
			t.Errorf("got %v", first.log.All())
		}

		second := beginNames(t, store, "east", "3")
		time.Sleep(time.Second) // at its start
		second.tells(t, 1)
		time.Sleep(time.Minute) // while it runs
		for _, c := range []called{first, second} {
			c.tells(t, 1)
			if c.log.FilterMessage("other replicas have the name of this one").Len() != 1 {
				t.Errorf("got %v, want one line", c.log.All())
			}
		}
		other.tells(t, 0)

		second.Close()
		time.Sleep(time.Minute)
		first.tells(t, 0)
		if first.log.FilterMessage("no other replica has the name of this one any more").Len() != 1 {
			t.Errorf("got %v", first.log.All())
		}
	})
}
