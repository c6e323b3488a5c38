package redisstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/tier"
)

// oddCase is something out of the ordinary, that comes behind ordinary requests.
type oddCase struct {
	name string
	make func(ctx context.Context, p redis.Pipeliner)
	request
}

// oddCases are about the name n, of which the last fence is known. In the ordinary case lockd's own is greater.
func oddCases() []oddCase {
	const fence = 1_700_000_000_000_000
	token := layout.Token("n")
	claimed, back := claim("n", "o"), releaseOf("n", "o", fence)
	claimed.Fence = fence + 1
	last := claimed
	last.Fence = 9007199254740990
	anyFence, other := back, back
	anyFence.Fence, other.Fence = 0, fence-1
	text := func(v any, ttl time.Duration) func(context.Context, redis.Pipeliner) {
		return func(ctx context.Context, p redis.Pipeliner) { p.Set(ctx, token, v, ttl) }
	}
	held := func(last any, fields ...any) func(context.Context, redis.Pipeliner) {
		for i := 0; i < len(fields); i += 2 {
			if field := fields[i].(string); len(field) == 1 {
				fields[i] = wholeID(field)
			}
		}
		return func(ctx context.Context, p redis.Pipeliner) {
			p.HSet(ctx, "n", fields...)
			p.PExpire(ctx, "n", time.Minute)
			if last != nil {
				p.Set(ctx, token, last, time.Hour)
			}
		}
	}
	const days = 24 * int64(time.Hour/time.Microsecond)
	take, give := request{claim: &claimed}, request{back: &back}
	return []oddCase{
		{"no fence", func(context.Context, redis.Pipeliner) {}, take},
		{"the last fence", text(fence, time.Hour), take},
		{"a word", text("x", time.Hour), take},
		{"a number with a point", text("1.5", time.Hour), take},
		{"a number with an exponent", text("1e3", time.Hour), take},
		{"a number behind a space", text(" 12", time.Hour), take},
		{"nothing", text("", time.Hour), take},
		{"too great a fence", text("9007199254740001", time.Hour), take},
		{"a fence at the end of all", text("9007199254740980", time.Hour), request{claim: &last}},
		{"the same fence", text(fence+1, time.Hour), take},
		{"a greater fence", text(fence+7, time.Hour), take},
		{"a fence without an end", text(fence, 0), take},
		{"an old fence without an end", text(fence-11*days, 0), take},
		{"a fence that ends soon", text(fence-11*days, time.Minute), take},
		{"a fence that is a list", func(ctx context.Context, p redis.Pipeliner) { p.RPush(ctx, token, "x") }, take},
		{"a name that is a list", func(ctx context.Context, p redis.Pipeliner) { p.RPush(ctx, "n", "x") }, take},
		{"a name that is held", held(fence, "x", 1), take},
		{"a name that is another hash", held(fence, "credits", 1), take},
		{"a name that is mine", held(fence, "o", 1), take},
		{"a name that is read", held(fence, "mode", "read", "o", 1), take},

		{"my hold", held(fence, "o", 1), give},
		{"my hold of any fence", held(fence, "o", 1), request{back: &anyFence}},
		{"another fence of mine", held(fence, "o", 1), request{back: &other}},
		{"a hold whose fence is lost", held(nil, "o", 1), give},
		{"a hold whose fence is a word", held("x", "o", 1), give},
		{"my hold of twice", held(fence, "o", 2), give},
		{"the hold of another", held(fence, "x", 1), give},
		{"my read hold", held(fence, "mode", "read", "o", 1), give},
		{"no hold", text(fence, time.Hour), give},
		{"no hold but another hash", held(fence, "credits", 1), give},
		{"no hold but a list", func(ctx context.Context, p redis.Pipeliner) { p.RPush(ctx, "n", "x") }, give},
	}
}

// oddOnes has what is out of the ordinary come alone and behind ordinary requests, and says what differs.
func oddOnes(t testing.TB, s *Store, g *gate, c *redis.Client) error {
	t.Helper()
	var failed error
	for _, odd := range oddCases() {
		run := func(before ...*request) (string, map[string]string) {
			must(t, c.FlushAll(t.Context()).Err())
			f := acquire(t, s, claim("freed", "a")).Fence
			_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
				odd.make(t.Context(), p)
				return nil
			})
			must(t, err)
			for _, r := range before {
				if r.back != nil {
					r.back.Fence = f
				}
			}
			one := odd.request
			goTogether(t, s, g, storetest.Deliver, append(before, &one)...)
			for i, r := range before {
				if r.err != nil && failed == nil {
					failed = wrong(i, r.err, nil)
				}
			}
			return fmt.Sprint(one.grant, one.outcome.back, one.err), contents(t, c, "n", layout.Token("n"))
		}
		alone, left := run()
		ways := map[string][]*request{
			"both": {acquiring("new", "a"), releasing("freed", "a", 0), acquiring("newer", "a")},
		}
		if tier.IsLong {
			ways["an acquisition"], ways["a release"] = []*request{acquiring("new", "a")}, []*request{releasing("freed", "a", 0)}
		}
		for what, before := range ways {
			behind, there := run(before...)
			if failed != nil {
				return failed
			}
			if behind != alone || !maps.Equal(left, there) {
				return fmt.Errorf("%s, behind %s: %s, %v; alone: %s, %v", odd.name, what, behind, there, alone, left)
			}
		}
	}
	return nil
}

// contents are what is at some keys, and about for how long.
func contents(t testing.TB, c *redis.Client, keys ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range keys {
		dump, err := c.Dump(t.Context(), key).Result()
		if err != nil {
			dump = err.Error()
		}
		left := c.PTTL(t.Context(), key).Val()
		all[key] = strconv.Quote(dump) + " " + left.Round(10*time.Second).String()
	}
	return all
}

func TestWhatIsOutOfTheOrdinaryHasTheAnswerItHasAlone(t *testing.T) {
	t.Parallel()
	s, g, c := gated(t)
	must(t, oddOnes(t, s, g, c))
}

// Redis is full, and a release makes the first write. The acquisition behind it is refused as it is alone.
func TestOrdinaryRequestsAreRefusedByAFullRedis(t *testing.T) {
	t.Parallel()
	s, g, c := gated(t)
	must(t, fullOrdinary(t, s, g, c))
}

func fullOrdinary(t testing.TB, s *Store, g *gate, c *redis.Client) (failed error) {
	t.Helper()
	for _, first := range []int{0, 1} {
		must(t, c.FlushAll(t.Context()).Err())
		all := []wanted{
			{releasing("held", "a", acquire(t, s, claim("held", "a")).Fence), nil},
			{acquiring("n", "a"), lock.ErrStoreFull},
			{acquiring("m", "a"), lock.ErrStoreFull},
		}
		all[0], all[first] = all[first], all[0]
		must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
		failed = errors.Join(failed, oneCall(t, s, g, all))
		must(t, c.ConfigSet(t.Context(), "maxmemory", "0").Err())
		failed = errors.Join(failed, leaves(t, s, map[string]left{"n": {}, "m": {}}))
	}
	return failed
}

// A user who may not set the end of a fence key has the error it has alone, and no lock that never ends.
func TestAnOrdinaryLockIsNotTakenIfItsFenceCannotEnd(t *testing.T) {
	srv, s, c := begin(t)
	must(t, c.Do(t.Context(), "acl", "setuser", "poor", "on", ">secret", "~*", "&*", "+@all", "-pexpire").Err())
	poor := redis.NewClient(&redis.Options{Addr: srv.Addr, Username: "poor", Password: "secret"})
	defer poor.Close()
	keys := []string{"n", layout.Token("n"), "m", layout.Token("m"), layout.Channel("m")}
	must(t, c.HSet(t.Context(), "m", wholeID("o"), 1).Err())
	must(t, c.Set(t.Context(), layout.Token("m"), 7, 0).Err())
	list, err := poor.Eval(t.Context(), s.Scripts.Many.Text, keys, "Ar", 1000,
		wholeID("o"), 1000, 8, wholeID("o"), 7).Slice()
	must(t, err)
	if text, isText := list[0].(string); !isText || text == "" || list[1] != int64(0) {
		t.Errorf("the script answered %v, want an error and a release", list)
	}
	if names := c.Keys(t.Context(), "[nm]").Val(); len(names) > 0 {
		t.Errorf("%q are held", names)
	}
}

// A release that names no fence, as those of a majority, is as ordinary as one that does: it costs no more commands.
func TestAReleaseOfAnyFenceIsOrdinary(t *testing.T) {
	_, s, c := begin(t)
	calls := func(anyFence bool) (n int) {
		must(t, c.ConfigResetStat(t.Context()).Err())
		back := releaseOf("n", "o", acquire(t, s, claim("n", "o")).Fence)
		if anyFence {
			back.Fence = 0
		}
		_, err := lock.Await(t.Context(), s.StartRelease, back)
		must(t, err)
		for line := range strings.Lines(c.Info(t.Context(), "commandstats").Val()) {
			for _, read := range []string{"get", "hlen", "hexists"} {
				var calls int
				_, _ = fmt.Sscanf(line, "cmdstat_"+read+":calls=%d,", &calls)
				n += calls
			}
		}
		return n
	}
	if without, with := calls(true), calls(false); without != with || with == 0 {
		t.Errorf("%d reads without a fence, %d with it", without, with)
	}
}
