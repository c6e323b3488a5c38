package redisstore

import (
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
