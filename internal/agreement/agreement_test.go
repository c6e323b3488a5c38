package agreement

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// shared is what Declare is of a store that several replicas use.
type shared struct {
	lock.Peers

	mu    sync.Mutex // guards the fields below
	text  string
	until time.Time
	away  bool

	others []string // prefixes that overlap
}

func (s *shared) Declare(_ context.Context, text string, ttl time.Duration) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return "", lock.ErrUnavailable
	}
	if time.Now().After(s.until) {
		s.text = text
	}
	if s.text == text {
		s.until = time.Now().Add(ttl)
	}
	return s.text, nil
}

func (s *shared) Overlaps(context.Context, time.Duration) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, lock.ErrUnavailable
	}
	return s.others, nil
}

// set changes it.
func (s *shared) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// begun is a replica that declares itself, and what it logs.
type begun struct {
	*Agreement
	*testing.T
	log *observer.ObservedLogs
}

func begin(t *testing.T, s *shared, r Replica, failed func(error)) begun {
	t.Helper()
	core, log := observer.New(zapcore.InfoLevel)
	r.ID = rand.Text()
	g, err := Begin(s, r, zap.New(core), prometheus.NewRegistry(), failed)
	if err != nil {
		t.Fatal(err)
	}
	return begun{g, t, log}
}

// differs has another replica begin that must not.
func differs(t *testing.T, s *shared, text, when string) {
	t.Helper()
	_, err := Begin(s, Replica{Text: text}, zap.NewNop(), nil, never(t))
	if !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), three) || !strings.Contains(err.Error(), five) {
		t.Errorf("got %v %s, want that it differs, and how", err, when)
	}
}

func never(t *testing.T) func(error) {
	return func(err error) { t.Errorf("failed: %v", err) }
}

// tells checks a finding, and a metric.
func (b begun) tells(check string, severity lock.Severity, of prometheus.Gauge, metric float64) {
	b.Helper()
	var m dto.Metric
	if err := of.Write(&m); err != nil {
		b.Fatal(err)
	}
	found := b.Examine()
	i := slices.IndexFunc(found, func(f lock.Finding) bool { return f.Check == check && f.Severity == severity })
	if i < 0 || severity >= lock.SeverityWarning && found[i].Remedy == "" || m.GetGauge().GetValue() != metric {
		b.Errorf("got %+v and %v, want %s with severity %v and %v", found, m.GetGauge().GetValue(), check, severity, metric)
	}
}

// logged checks how often something was.
func (b begun) logged(message string, times int) {
	b.Helper()
	if got := b.log.FilterMessageSnippet(message).Len(); got != times {
		b.Errorf("%q is logged %d times, want %d: %v", message, got, times, b.log.All())
	}
}

const three, five = "redlock quorum 2 of a:1 b:2 c:3", "redlock quorum 3 of a:1 b:2 c:3 d:4 e:5"

func TestAReplicaWithOtherMembersDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		first, same := begin(t, s, Replica{Text: three}, never(t)), begin(t, s, Replica{Text: three}, never(t))
		differs(t, s, five, "at first")
		time.Sleep(time.Hour) // it is repeated
		same.Close()
		differs(t, s, five, "beside the first replica after an hour")
		first.Close()
		differs(t, s, five, "just after the last replica ended: its leases last")
		time.Sleep(Lasts + time.Millisecond)
		begin(t, s, Replica{Text: five}, never(t)).Close()
	})
}

// A replica that began while the store was away has not begun to serve anybody well: it ends when it learns that it
// differs.
func TestAReplicaThatBeganWithoutTheStoreEndsWhenItDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		first := begin(t, s, Replica{Text: three}, never(t))
		defer first.Close()
		s.set(func() { s.away = true })
		failed := make(chan error, 1)
		late := begin(t, s, Replica{Text: five}, func(err error) { failed <- err })
		defer late.Close()
		time.Sleep(20 * time.Second)
		late.tells("CONFIG_AGREES", lock.SeverityInfo, late.differs, 0)
		s.set(func() { s.away = false })
		begun := time.Now()
		if err := <-failed; !errors.Is(err, ErrDiffers) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begun); took > soon {
			t.Errorf("it took %v", took)
		}
	})
}

// A replica that serves goes on, and says so, whoever was first after the store forgot.
func TestAReplicaThatServesGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		g := begin(t, s, Replica{Text: three}, never(t))
		defer g.Close()
		g.tells("CONFIG_AGREES", lock.SeverityOK, g.differs, 0)
		s.set(func() { s.text, s.until = five, time.Now().Add(Lasts) })
		time.Sleep(every + time.Millisecond)
		g.tells("CONFIG_AGREES", lock.SeverityError, g.differs, 1)
		time.Sleep(Lasts)
		synctest.Wait()
		g.tells("CONFIG_AGREES", lock.SeverityOK, g.differs, 0) // the other one is gone
	})
}

// Who shares names by accident is told at the start, and when another one comes.
func TestPrefixesThatOverlapAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New(), others: []string{""}}
		g := begin(t, s, Replica{Text: "a"}, never(t))
		defer g.Close()
		for _, row := range []struct {
			change   func()
			logged   int
			severity lock.Severity
		}{
			{func() {}, 1, lock.SeverityWarning},
			{func() { s.others = []string{"", "b:"} }, 2, lock.SeverityWarning},
			{func() { s.others = nil }, 2, lock.SeverityOK},
			{func() { s.away = true }, 2, lock.SeverityInfo},
		} {
			s.set(row.change)
			time.Sleep(time.Minute)
			g.logged("overlaps", row.logged)
			g.tells("PREFIX_OVERLAPS", row.severity, g.differs, 0)
		}
	})
}

func TestReplicasLearnOfOtherClientsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		var east, west atomic.Value
		with := func(name string, file *atomic.Value) begun {
			file.Store("same")
			return begin(t, s, Replica{Name: name, Clients: func() string { return file.Load().(string) }}, never(t))
		}
		first, second := with("east", &east), with("west", &west)
		defer first.Close()
		defer second.Close()
		for _, row := range []struct{ now, told string }{
			{"same", "[]"}, {"other", "[west (other)]"}, {"", "[west (none)]"}, {"same", "[]"},
		} {
			west.Store(row.now)
			time.Sleep(time.Minute)
			if got := fmt.Sprint(first.OtherClients()); got != row.told {
				t.Errorf("with %q it is told of %s", row.now, got)
			}
		}
		// What others were told to have is held against what this one has now.
		west.Store("new")
		time.Sleep(time.Minute)
		east.Store("new")
		if got := first.OtherClients(); len(got) > 0 {
			t.Errorf("with the same file it is told of %s", got)
		}
	})
}

func TestTwoReplicasOfOneNameNoticeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		named := func(name string) begun { return begin(t, s, Replica{Text: "the same", Name: name}, never(t)) }
		tells := func(b begun, severity lock.Severity, others float64) {
			t.Helper()
			b.tells("REPLICA_NAME", severity, b.shared, others)
		}
		first, other := named("east"), named("west")
		defer first.Close()
		defer other.Close()
		time.Sleep(time.Minute)
		tells(first, lock.SeverityOK, 0)
		first.logged("", 0)

		second := named("east")
		synctest.Wait() // at its start
		tells(second, lock.SeverityWarning, 1)
		time.Sleep(time.Minute) // while it runs
		for _, b := range []begun{first, second} {
			tells(b, lock.SeverityWarning, 1)
			b.logged("other replicas have the name of this one", 1)
		}
		tells(other, lock.SeverityOK, 0)

		second.Close()
		time.Sleep(time.Minute)
		tells(first, lock.SeverityOK, 0)
		first.logged("no other replica has the name of this one any more", 1)
	})
}
