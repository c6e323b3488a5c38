package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

func reading(name string, o lock.Owner) *request {
	return &request{claim: new(kindClaim(lock.Read, name, o))}
}

func readDone(name string, o lock.Owner, f lock.Fence) *request {
	return &request{back: new(kindReturn(lock.Read, name, o, f))}
}

func permit(name string, o lock.Owner, limit uint32) *request {
	return &request{claim: new(permitsClaim(name, o, 1, limit))}
}

func permitDone(name string, o lock.Owner) *request {
	r := kindReturn(lock.Semaphore, name, o, 0)
	r.Permits = 1
	return &request{back: &r}
}

// sharedMixed has every case of readers and permits in one call, and says what is wrong with the outcomes.
func sharedMixed(t testing.TB, s *Store, g *gate, c *redis.Client) error {
	t.Helper()
	must(t, c.FlushAll(t.Context()).Err())
	x, y := acquire(t, s, kindClaim(lock.Read, "rw", "x")).Fence, acquire(t, s, kindClaim(lock.Read, "rw", "y")).Fence
	last := acquire(t, s, kindClaim(lock.Read, "last", "x")).Fence
	acquire(t, s, kindClaim(lock.Write, "w", "w"))
	acquire(t, s, kindClaim(lock.Read, "waited", "x"))
	writer := kindClaim(lock.Write, "waited", "w")
	writer.Place = lease
	wantErr(t, attempt(t, s, writer), lock.ErrHeld)
	acquire(t, s, permitsClaim("sem", "x", 1, 2))
	acquire(t, s, permitsClaim("one", "x", 1, 1))
	rw, first, second := reading("rw", "a"), reading("new", "a"), reading("new", "b")
	permitA, permitB, made, taken := permit("sem", "a", 0), permit("sem", "b", 2), permit("made", "b", 3),
		acquiring("last", "a")
	err := oneCall(t, s, g, []wanted{
		{rw, nil},
		{first, nil},
		{second, nil},
		{reading("w", "a"), lock.ErrHeld},
		{reading("waited", "a"), lock.ErrHeld},
		{readDone("rw", "x", x), nil},
		{readDone("rw", "x", x), lock.ErrNotHeld},
		{readDone("rw", "y", y-1), lock.ErrStale},
		{acquiring("new", "a"), lock.ErrHeld},
		{permitA, nil},
		{permit("sem", "c", 0), lock.ErrHeld},
		{permitDone("sem", "x"), nil},
		{permitB, nil},
		{permitDone("sem", "x"), lock.ErrNotHeld},
		{permit("nothing", "a", 0), lock.ErrLimitMismatch},
		{permit("sem", "d", 9), lock.ErrLimitMismatch},
		{permit("made", "a", 3), nil},
		{made, nil},
		{reading("made", "a"), lock.ErrKindMismatch},
		{permit("rw", "a", 1), lock.ErrKindMismatch},
		{readDone("last", "x", last), nil},
		{taken, nil},
		{reading("again", "a"), nil},
		{readDone("again", "a", 0), nil},
		{permitDone("made", "a"), nil},
		{permit("made", "a", 3), nil},
		{permitDone("one", "x"), nil}, // the sorted set is gone
		{permit("one", "a", 0), nil},
	})
	if err != nil {
		return err
	}
	if first.grant.Fence >= second.grant.Fence || permitA.grant.Fence >= permitB.grant.Fence {
		return fmt.Errorf("fences %v after %v, %v after %v", second.grant, first.grant, permitB.grant, permitA.grant)
	}
	if err = allEnd(t, c); err != nil {
		return err
	}
	return leaves(t, s, map[string]left{
		"rw": {2, "", rw}, "new": {2, "", second}, "sem": {2, "", permitB}, "made": {2, "", nil}, "one": {1, "", nil},
		"last": {1, "a", taken}, "again": {}, "waited": {1, "x", nil},
	})
}

// allEnd says which keys do not end by themselves.
func allEnd(t testing.TB, c *redis.Client) error {
	t.Helper()
	for _, key := range c.Keys(t.Context(), "*").Val() {
		if left := c.PTTL(t.Context(), key).Val(); key != layout.Data && left == -1 {
			return fmt.Errorf("%s has no end", key)
		}
	}
	return nil
}

// A hash ends with its longest hold, and with its last reader, whoever left in one call.
func sharedLives(t testing.TB, s *Store, g *gate, c *redis.Client) error {
	t.Helper()
	must(t, c.FlushAll(t.Context()).Err())
	short := kindClaim(lock.Read, "n", "short")
	short.TTL = lease / 4
	acquire(t, s, short)
	a, b := acquire(t, s, kindClaim(lock.Read, "n", "a")).Fence, acquire(t, s, kindClaim(lock.Read, "n", "b")).Fence
	alone := acquire(t, s, kindClaim(lock.Read, "m", "a")).Fence
	err := oneCall(t, s, g, []wanted{
		{readDone("n", "a", a), nil},
		{readDone("n", "b", b), nil},
		{readDone("m", "a", alone), nil},
	})
	if left := c.PTTL(t.Context(), "n").Val(); err == nil && (left <= 0 || left > short.TTL) {
		err = fmt.Errorf("the lock lives for %v, want at most %v", left, short.TTL)
	}
	if n := c.Exists(t.Context(), "m").Val(); err == nil && n != 0 {
		err = errors.New("the lock is still there without readers")
	}
	return err
}

// Who listens hears of each that ended in one call, in Redisson's words once for all of them.
func TestWhoListensHearsOfManyThatShare(t *testing.T) {
	t.Parallel()
	s, g, c := gated(t)
	f, h := acquire(t, s, kindClaim(lock.Read, "n", "a")).Fence, acquire(t, s, kindClaim(lock.Read, "n", "b")).Fence
	for _, o := range wholes("a", "b") {
		acquire(t, s, permitsClaim("sem", o, 1, 2))
	}
	sub := c.Subscribe(t.Context(), layout.RWChannel("n"), layout.NewsChannel("n"),
		layout.PermitChannel("sem"), layout.NewsChannel("sem"))
	t.Cleanup(func() { _ = sub.Close() })
	for range 4 {
		_, err := sub.Receive(t.Context())
		must(t, err)
	}
	rs := []*request{readDone("n", "a", f), readDone("n", "b", h), permitDone("sem", "a"), permitDone("sem", "b")}
	goTogether(t, s, g, storetest.Deliver, rs...)
	for i, want := range []int{0, 1, 1, 1} {
		if rs[i].err != nil || rs[i].outcome.back.Listeners != want {
			t.Errorf("request %d: got %+v, %v, want %d listeners", i, rs[i].outcome.back, rs[i].err, want)
		}
	}
	var got []string
	for range 8 - 1 {
		m, err := sub.ReceiveMessage(t.Context())
		must(t, err)
		got = append(got, m.Channel+" "+m.Payload)
	}
	slices.Sort(got)
	want := []string{
		layout.NewsChannel("n") + fmt.Sprintf(" released %d 0 ", f), layout.NewsChannel("n") +
			fmt.Sprintf(" released %d 1 ", h), layout.RWChannel("n") + " 0",
		layout.NewsChannel("sem") + " released 0 1 " + lock.PermitsOf(whole("a")),
		layout.NewsChannel("sem") + " released 0 1 " +
			lock.PermitsOf(whole("b")),
		layout.PermitChannel("sem") + " 1", layout.PermitChannel("sem") + " 2",
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A call for many is bounded, however little in it is ordinary.
func TestACallForManyThatShareKeepsRedisBusyForAShortTime(t *testing.T) {
	srv := redistest.Start(t)
	g, cfg := new(gate), quick(srv)
	cfg.Hook = g
	s, c := open(t, cfg), srv.Client()
	for what, worst := range map[string]func(name string) *request{
		"the longest of 128 readers leaves": func(name string) *request {
			fields := []any{"mode", "read"}
			p := c.Pipeline()
			for i := range 128 {
				o := whole(lock.Owner(fmt.Sprint("u:", i)))
				fields = append(fields, string(o), 1)
				p.Set(t.Context(), layout.HoldBase(name)+string(o)+firstHold, 7, lease-time.Duration(i)*time.Second)
			}
			p.HSet(t.Context(), name, fields...)
			p.PExpire(t.Context(), name, lease)
			_, err := p.Exec(t.Context())
			must(t, err)
			return readDone(name, "u:0", 7)
		},
		"300 permits have ended": func(name string) *request {
			endedPermits(t, c, name, 300)
			return permit(name, "o", 0)
		},
	} {
		t.Run(what, func(t *testing.T) {
			notForLong(t, srv, func() func() {
				var rs []*request
				for i := range maxTogether / 2 { // each costs as much as two
					r := worst(fmt.Sprint("n", i))
					if r.claim != nil {
						r.claim.Tenant = fmt.Sprint(i)
					} else {
						r.back.Tenant = fmt.Sprint(i)
					}
					rs = append(rs, r)
				}
				return func() {
					g.seen()
					goTogether(t, s, g, storetest.Deliver, rs...)
					if shas := g.seen(); len(shas) != 1 {
						t.Fatalf("%d scripts went, want one for all", len(shas))
					}
					for _, r := range rs {
						if !strings.HasPrefix(what, "300") { // which are refused
							wantErr(t, r.err, nil)
						}
					}
				}
			})
		})
	}
}
