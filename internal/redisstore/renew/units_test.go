package renew

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

func TestRenewalsAreCutByCost(t *testing.T) {
	var rs []lock.Renewal
	var all []int
	for i := range 600 {
		r := lock.Renewal{Kind: lock.Exclusive}
		if i%2 == 0 {
			r = lock.Renewal{Kind: lock.Semaphore, Permits: uint32(i)} //nolint:gosec // small
		}
		rs, all = append(rs, r), append(all, i)
	}
	next := 0
	for _, chunk := range ByCost(rs, all) {
		cost := 0
		for _, i := range chunk {
			if i != next {
				t.Fatalf("got hold %d, want %d", i, next)
			}
			next++
			cost += lock.Weight(rs[i].Kind, rs[i].Permits)
		}
		if cost > Chunk && len(chunk) > 1 {
			t.Errorf("a chunk of %d holds costs %d, want at most %d", len(chunk), cost, Chunk)
		}
	}
	if next != len(rs) {
		t.Errorf("%d holds are in chunks, want %d", next, len(rs))
	}
}

func TestFit(t *testing.T) {
	for info, want := range map[string]bool{
		"redis_version:7.0.15\r\nrole:master\r\n": true,
		"redis_version:6.2.0\r\nrole:master\r\n":  true,
		"redis_version:10.0.0\r\n":                true,
		"redis_version:255.255.255\r\n":           true,
		"redis_version:unstable\r\n":              true,
		"redis_version:6.0.16\r\nrole:master\r\n": false,
		"redis_version:5.0\r\n":                   false,
		"redis_version:7.0.15\r\nrole:slave\r\n":  false,
	} {
		if err := fit(info); (err == nil) != want {
			t.Errorf("%q: got %v, want it fit: %v", info, err, want)
		}
	}
}

func TestMostRenewalsDoNotLookAfterFenceKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 800 * time.Millisecond
		s := New(&script.Caller{FenceMillis: ttl.Milliseconds()}, Config{}, nil)
		r, looked := lock.Renewal{Seen: time.Now()}, 0
		for begun := time.Now(); time.Since(begun) < 4*ttl; time.Sleep(2 * time.Millisecond) {
			if s.fencesToKeep(renewals{[]lock.Renewal{r}, []int{0}}) > 0 {
				looked++
			}
			r.Seen = time.Now()
		}
		if looked < 3*fencesPart || looked > 5*fencesPart {
			t.Errorf("%d renewals in 4 times the TTL looked after the fence key", looked)
		}
	})
}
