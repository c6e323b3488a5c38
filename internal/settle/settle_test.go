package settle

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redlock"
)

func dropped(s *Store) string {
	m := new(dto.Metric)
	_ = s.dropped.Write(m)
	return strconv.Itoa(int(m.GetCounter().GetValue()))
}

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Rig {
		inner := memstore.New()
		s, err := New(inner, Config{}, zap.NewNop(), prometheus.NewRegistry())
		must(t, err)
		t.Cleanup(s.Close)
		return storetest.Rig{Store: s, Hooks: storetest.HooksOf(inner)}
	})
}

// What a store tells besides is found behind a settled one.
func TestNothingThatAStoreTellsIsLost(t *testing.T) {
	s, _ := newSettled(t, Config{})
	s.Store = new(redisstore.Store)
	_, detects := lock.As[redlock.DataLoss](s)
	_, marked := lock.As[redlock.Marked](s)
	_, declares := lock.As[lock.Declarer](s)
	_, queues := lock.As[gate.Store](s)
	if !detects || !marked || !declares || !queues {
		t.Errorf("detects %v, marked %v, declares %v, queues %v", detects, marked, declares, queues)
	}
}

// A tenant whose releases are never acknowledged has a tenth of all that are pending, and few of them are tried at a
// time.
func TestPendingReleasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := newSettled(t, Config{Most: 100, UnderWay: 4})
		core, lines := observer.New(zap.WarnLevel)
		s.log = zap.New(core, zap.Hooks(func(zapcore.Entry) error { s.age(time.Now()); return nil })) // mu is free
		refused := func(owner lock.Owner, n int) {
			for i := range n {
				r := lock.Return{Name: strconv.Itoa(i), Kind: lock.Exclusive, Owner: owner}
				s.StartRelease(r, func(lock.Returned, error) {})
				w.refuse(lock.ErrUnavailable)
			}
		}
		refused("many:#1", 50)
		if n := s.n.Load(); n != 10 || dropped(s) != "40" || lines.Len() != 1 {
			t.Errorf("%d pending releases, %s dropped, %d lines, want 10, 40 and 1", n, dropped(s), lines.Len())
		}
		refused("few:#1", 1)
		if n := s.n.Load(); n != 11 {
			t.Errorf("%d pending releases, want one for the other tenant, too", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.underWay(); n != 4 {
			t.Errorf("%d calls under way, want 4", n)
		}
	})
}

// inner is a store that answers at once.
type inner struct{ lock.Store }

func (inner) StartAcquire(_ lock.Claim, done func(lock.Grant, error)) {
	done(lock.Grant{Fence: 1}, nil)
}

func (inner) StartRelease(_ lock.Return, done func(lock.Returned, error)) { done(lock.Returned{}, nil) }

// pair is a lock and a release of it without trouble.
func pair(t testing.TB) func() {
	s, err := New(inner{}, Config{}, zap.NewNop(), nil)
	must(t, err)
	c := lock.Claim{Name: "n", Kind: lock.Exclusive, Owner: "session:#1"}
	r := lock.Return{Name: "n", Kind: lock.Exclusive, Owner: "session:#1"}
	granted, returned := func(lock.Grant, error) {}, func(lock.Returned, error) {}
	return func() {
		s.StartAcquire(c, granted)
		s.StartRelease(r, returned)
	}
}

func TestWhatIsNoTroubleCostsLittleMemory(t *testing.T) {
	if n := testing.AllocsPerRun(1000, pair(t)); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkWithoutTrouble(b *testing.B) {
	f := pair(b)
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}
