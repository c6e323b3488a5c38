package redistest

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// behind is a client with one connection with a name, and nothing is asked twice.
func behind(t *testing.T, p *Proxy) *redis.Client {
	c := redis.NewClient(&redis.Options{
		Addr: p.Addr, Protocol: 2, MaxRetries: -1, DisableIdentity: true, PoolSize: 1, ClientName: "way",
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestWhatIsLateIsDoneUnlessTheConnectionWasEnded(t *testing.T) {
	t.Parallel()
	for what, row := range map[string]struct {
		cut    LateCut
		ends   bool // the next connection ends the first one
		spares bool
		done   string
		counts LateCounts
	}{
		"a connection that nobody ends": {
			LateCut{Requests: time.Second}, false, false, "late", LateCounts{Cut: 1, Done: 1, Overtaken: 1},
		},
		"a connection that is ended": {
			LateCut{InTime: 0.5, Requests: time.Minute}, true, false, "", LateCounts{Cut: 1, Ended: 1},
		},
		"a connection whose end is not passed on": {
			LateCut{InTime: 0.5, Requests: time.Second}, true, true, "late", LateCounts{Cut: 1, Done: 1, Overtaken: 1},
		},
		"a connection that the client is not told of": {
			LateCut{Requests: time.Millisecond, Silent: true}, false, false, "late", LateCounts{Cut: 1, Kept: 1},
		},
		"answers that are lost": {
			LateCut{InTime: 1, Answers: time.Minute}, false, false, "late", LateCounts{Cut: 1, Whole: 1},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			ctx, s := t.Context(), Start(t)
			p, direct := StartProxy(t, s.Addr), s.Client()
			old, next := behind(t, p), behind(t, p)
			id := old.ClientID(ctx).Val()
			if row.spares {
				p.Spare()
			}
			row.cut.On = func(name string, request []byte) bool {
				return name == "way" && bytes.Contains(request, []byte("late"))
			}
			p.CutLate(&row.cut)
			begun := time.Now()
			if err := old.Set(ctx, "k", "late", 0).Err(); (err == nil) != row.cut.Silent {
				t.Errorf("the client was told %v", err)
			}
			if row.ends {
				if err := next.ClientKillByFilter(ctx, "ID", strconv.FormatInt(id, 10)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if sha := next.ScriptLoad(ctx, "return 1").Val(); next.EvalSha(ctx, sha, nil).Err() != nil {
				t.Fatal("no script")
			}
			used := time.Since(begun) // of the next connection
			for p.LateCounts().Pending > 0 {
				time.Sleep(time.Millisecond)
			}
			counts := p.LateCounts()
			if used > row.cut.Requests { // the order is not known
				counts.Overtaken = row.counts.Overtaken
			}
			if got := direct.Get(ctx, "k").Val(); got != row.done || counts != row.counts {
				t.Errorf("got %q and %+v, want %q and %+v", got, counts, row.done, row.counts)
			}
		})
	}
}
