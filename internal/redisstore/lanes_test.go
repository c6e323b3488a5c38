package redisstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

// What clients cause succeeds even without the renewals' connection, so it cannot be in the way of a renewal.
func TestOnlyRenewalsUseTheirConnection(t *testing.T) {
	t.Parallel()
	s := open(t, quick(redistest.Start(t)))
	f := acquire(t, s, claim("n", "o")).Fence
	r := renewal(claim("n", "o"), f)
	wantErr(t, renewing(t, s, r), nil)
	s.Steady.Close()
	wantErr(t, renewing(t, s, r), lock.ErrUnavailable)
	_, err := lock.Await(t.Context(), s.StartExtend, r)
	wantErr(t, err, nil)
	r.TTL = 0
	wantErr(t, renewing(t, s, r), nil)
	_, err = lock.Await(t.Context(), s.StartExtend, r)
	wantErr(t, err, nil)
}

// TestAProbeDoesNotWaitForRenewals asks whether Redis is there while very much is to be renewed. One who is slow to ask
// finds that most was renewed meanwhile, so some tries may show nothing.
func TestAProbeDoesNotWaitForRenewals(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.OpTimeout = 10 * time.Second
	s := open(t, cfg)
	rs := make([]lock.Renewal, 50_000)
	for i := range rs {
		rs[i] = lock.Renewal{Name: fmt.Sprint("n", i), Kind: lock.Exclusive, Owner: whole("o"), TTL: time.Minute}
	}
	var before int64
	for range 5 {
		if before = renewedBeforeAProbe(t, s, rs); before <= int64(len(rs))/2 {
			return
		}
	}
	t.Errorf("%d of %d renewals were answered before the probe", before, len(rs))
}

// renewedBeforeAProbe is how many renewals were answered when a probe was that was asked for after the first one.
func renewedBeforeAProbe(t *testing.T, s *Store, rs []lock.Renewal) int64 {
	var answered atomic.Int64
	begun, all := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(all)
		s.Renew(t.Context(), rs, func(int, error) {
			if answered.Add(1) == 1 {
				close(begun)
			}
		})
	}()
	<-begun
	if _, err := s.Probe(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	n := answered.Load()
	<-all
	return n
}
