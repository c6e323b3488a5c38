package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// A master and its replica are gone, and the others refuse all names. A request is repeated for its time and then
// refused, with nothing done. One that has time left goes on when the master is back.
func TestAClusterThatIsDownRefusesUntilItIsBack(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	const within = time.Second
	s := openWith(t, Config{Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: 10 * time.Second}})
	s.within = within
	patient := openWith(t, Config{Addrs: c.Addrs(), Node: redisstore.Config{OpTimeout: time.Minute}})
	held := holding(t, s, "{x}held")
	holding(t, patient, "{x}warm")
	stays := c.MasterOf(layout.Slot("{x}"))
	_, goes := elsewhere(t, c, stays)
	direct := stays.Client()
	down := func() bool { return redis.IsClusterDownError(direct.Get(t.Context(), "{x}any").Err()) }

	gone := c.ReplicaOf(goes)
	c.ReplaceSoon()
	gone.Kill()
	goes.Kill()
	harness.Until(t, "the cluster is down", down)
	keys := direct.DBSize(t.Context()).Val()
	harness.Until(t, "a request is repeated three times", func() bool { // it has not much time for that
		before, begun := redirections(t, s, kindDown), time.Now()
		_, err := lock.Await(t.Context(), s.StartAcquire, claim("{x}new", "o"))
		if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrOutcomeUnknown) || !redis.IsClusterDownError(err) {
			t.Errorf("got %v, want that the cluster is down and that nothing was done", err)
		}
		if took := time.Since(begun); took > 10*within {
			t.Errorf("refused after %v, want about %v", took, within)
		}
		return redirections(t, s, kindDown)-before >= 3
	})
	if err := renewed(t, s, held)[0]; !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("a renewal: got %v", err)
	}
	if now := direct.DBSize(t.Context()).Val(); now != keys || keys == 0 || !down() {
		t.Errorf("%d keys, want the %d that there were, and the cluster down", now, keys)
	}

	granted := make(chan error, 1)
	go func() {
		_, err := lock.Await(t.Context(), patient.StartAcquire, claim("{x}patient", "o"))
		granted <- err
	}()
	goes.Restart()
	if err := <-granted; err != nil {
		t.Errorf("the request that was repeated until the cluster was back: %v", err)
	}
	if err := renewed(t, s, held)[0]; err != nil {
		t.Errorf("a renewal when the cluster is back: %v", err)
	}
	holding(t, s, "{x}new")
}

// redirections is how many calls were sent elsewhere for a reason.
func redirections(t testing.TB, s *Store, kind string) float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(s.metrics.Redirections.WithLabelValues(kind))
	families, err := reg.Gather()
	must(t, err)
	return families[0].GetMetric()[0].GetCounter().GetValue()
}
