package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
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

func (s *shared) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func begin(t *testing.T, s *shared, text string, failed func(error)) *Guard {
	t.Helper()
	g, err := Begin(s, Replica{Text: text, Name: text, ID: rand.Text()}, zaptest.NewLogger(t), prometheus.NewRegistry(),
		failed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func never(t *testing.T) func(error) {
	return func(err error) { t.Errorf("failed: %v", err) }
}

func metric(t *testing.T, g *Guard) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(g.differs)
	all, err := reg.Gather()
	if err != nil || len(all) != 1 {
		t.Fatalf("got %v, %v", all, err)
	}
	return all[0].GetMetric()[0].GetGauge().GetValue()
}

const three, five = "redlock quorum 2 of a:1 b:2 c:3", "redlock quorum 3 of a:1 b:2 c:3 d:4 e:5"

func TestAReplicaWithOtherMembersDoesNotBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		first := begin(t, s, three, never(t))
		same := begin(t, s, three, never(t))
		_, err := Begin(s, Replica{Text: five}, zaptest.NewLogger(t), nil, never(t))
		if !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), three) || !strings.Contains(err.Error(), five) {
			t.Errorf("got %v, want that it differs, and how", err)
		}
		time.Sleep(time.Hour) // it is repeated
		same.Close()
		if _, err := Begin(s, Replica{Text: five}, zaptest.NewLogger(t), nil, never(t)); !errors.Is(err, ErrDiffers) {
			t.Errorf("got %v beside the first replica after an hour", err)
		}
		first.Close()
		if _, err := Begin(s, Replica{Text: five}, zaptest.NewLogger(t), nil, never(t)); !errors.Is(err, ErrDiffers) {
			t.Errorf("got %v just after the last replica ended: its leases last", err)
		}
		time.Sleep(Lasts + time.Millisecond)
		begin(t, s, five, never(t)).Close()
	})
}

// A replica that began while the store was away has not begun to serve anybody well: it ends when it learns that it
// differs.
func TestAReplicaThatBeganWithoutTheStoreEndsWhenItDiffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shared{Peers: memstore.New()}
		first := begin(t, s, three, never(t))
		defer first.Close()
		s.setAway(true)
		failed := make(chan error, 1)
		late := begin(t, s, five, func(err error) { failed <- err })
		defer late.Close()
		time.Sleep(20 * time.Second)
		if f := late.Examine()[0]; f.Severity != lock.SeverityInfo {
			t.Errorf("got %+v without the store", f)
		}
		s.setAway(false)
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
		g := begin(t, s, three, never(t))
		defer g.Close()
		if f := g.Examine()[0]; f.Severity != lock.SeverityOK || !strings.Contains(f.Detail, three) {
			t.Errorf("got %+v", f)
		}
		s.mu.Lock()
		s.text, s.until = five, time.Now().Add(Lasts)
		s.mu.Unlock()
		time.Sleep(every + time.Millisecond)
		if f := g.Examine()[0]; f.Severity != lock.SeverityError || f.Remedy == "" || metric(t, g) != 1 {
			t.Errorf("got %+v and the metric %v", f, metric(t, g))
		}
		time.Sleep(Lasts)
		synctest.Wait()
		if f := g.Examine()[0]; f.Severity != lock.SeverityOK || metric(t, g) != 0 {
			t.Errorf("got %+v and the metric %v when the other one is gone", f, metric(t, g))
		}
	})
}

// Who shares names by accident is told at the start, and when another one comes.
func TestPrefixesThatOverlapAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		s := &shared{Peers: memstore.New(), others: []string{""}}
		g, err := Begin(s, Replica{Text: "a"}, zap.New(core), nil, never(t))
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		told := func(n int, severity lock.Severity) {
			t.Helper()
			if got := logs.FilterMessageSnippet("overlaps").Len(); got != n {
				t.Errorf("told %d times, want %d", got, n)
			}
			if f := g.Examine()[1]; f.Check != "PREFIX_OVERLAPS" || f.Severity != severity {
				t.Errorf("got %+v, want severity %v", f, severity)
			}
		}
		told(1, lock.SeverityWarning)
		time.Sleep(time.Minute)
		told(1, lock.SeverityWarning)
		s.setOthers("", "b:")
		time.Sleep(time.Minute)
		told(2, lock.SeverityWarning)
		s.setOthers()
		time.Sleep(time.Minute)
		told(2, lock.SeverityOK)
		s.setAway(true)
		time.Sleep(time.Minute)
		told(2, lock.SeverityInfo)
	})
}

func (s *shared) setOthers(others ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = others
}
