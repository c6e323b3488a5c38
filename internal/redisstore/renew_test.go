package redisstore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/redistest"
)

// Most renewals do not look after the fence key, but the first of a hold does.
func TestRenewingKeepsTheFenceKey(t *testing.T) {
	_, s, c := begin(t)
	r := renewal(claim("n", "o"), acquire(t, s, claim("n", "o")).Fence)
	must(t, c.PExpire(t.Context(), layout.Token("n"), lease).Err())
	wantErr(t, renewing(t, s, r), nil)
	near(t, "fence key", c.PTTL(t.Context(), layout.Token("n")).Val(), defaultFenceTTL)
}

// TestAHoldIsProlongedAlikeByAnOldRedis renews as Redis 6.2 does, which has no GT.
func TestAHoldIsProlongedAlikeByAnOldRedis(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := srv.Client()
	for _, old := range []bool{false, true} {
		s := open(t, quick(srv))
		if old {
			text := strings.Replace(s.Scripts.Renew.Text, "= redis.REDIS_VERSION_NUM", "= nil", 1)
			if text == s.Scripts.Renew.Text {
				t.Fatal("the script does not ask for the version")
			}
			s.Scripts.Renew = script.New("old", text, s.Metrics)
			must(t, c.ScriptLoad(t.Context(), text).Err())
		}
		name := fmt.Sprint("old ", old)
		r := renewal(claim(name, "o"), acquire(t, s, claim(name, "o")).Fence)
		lasts := func(ttl, want time.Duration) {
			t.Helper()
			r.TTL = ttl
			wantErr(t, renewing(t, s, r), nil)
			if left := c.PTTL(t.Context(), name).Val(); left > want || left < want-5*time.Second {
				t.Errorf("%s: renewed for %v it lasts for %v, want %v", name, ttl, left, want)
			}
		}
		lasts(time.Hour, time.Hour)
		lasts(time.Minute, time.Hour) // never shortened
		lasts(0, time.Hour)
		lasts(2*time.Hour, 2*time.Hour)
		c.Persist(t.Context(), name)
		lasts(time.Hour, time.Hour)
		r.TTL = 3 * time.Hour
		if left, err := lock.Await(t.Context(), s.StartExtend, r); err != nil || left != r.TTL {
			t.Errorf("%s: extended to %v, %v", name, left, err)
		}
		c.HSet(t.Context(), name, "mode", "read")
		wantLost(t, renewing(t, s, r), lock.LostForced)
	}
}

// Why one hold is gone is asked for when all others were told.
func TestAHoldThatIsGoneDelaysNoOther(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	p := redistest.StartProxy(t, srv.Addr)
	s := open(t, Config{Addr: p.Addr, OpTimeout: time.Hour})
	var rs []lock.Renewal
	for _, name := range []string{"gone", "a", "b"} {
		r := renewal(claim(name, "o"), acquire(t, s, claim(name, "o")).Fence)
		r.Seen = time.Now()
		rs = append(rs, r)
	}
	must(t, srv.Client().Del(t.Context(), "gone").Err())
	p.Hold(func(request []byte) bool { return bytes.Contains(request, []byte("info")) })
	defer p.Deliver()
	told := make(chan int, len(rs))
	go s.Renew(t.Context(), rs, func(i int, _ error) { told <- i })
	for range len(rs) - 1 {
		select {
		case i := <-told:
			if i == 0 {
				t.Error("it is told why the hold is gone, though that is not known")
			}
		case <-time.After(time.Minute):
			t.Fatal("others wait for it")
		}
	}
	p.Deliver()
	if i := <-told; i != 0 {
		t.Errorf("got %d again", i)
	}
}
