package redisstore

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/redistest"
)

// misfitCall is a call of the Store, for each script at least one. before sets the scene.
type misfitCall struct {
	name   string
	keys   []string
	before func(t *testing.T, s *Store)
	call   func(t *testing.T, s *Store) error
}

// misfitCalls are calls that reach every script.
func misfitCalls() []misfitCall {
	var calls []misfitCall
	add := func(name string, keys []string, before func(*testing.T, *Store), call func(*testing.T, *Store) error) {
		calls = append(calls, misfitCall{name, keys, before, call})
	}
	nothing := func(*testing.T, *Store) {}
	for _, k := range allKindsHere {
		claim := kindClaim(k, "n", "u:7")
		if k == lock.Semaphore {
			claim = permitsClaim("n", "u:7", 1, 1)
		}
		held := func(t *testing.T, s *Store) { acquire(t, s, claim) }
		other := claim
		other.Owner, other.Place = whole("u:8"), time.Minute
		keys := misfitKeys(k, "u:7", "u:8")
		add(k.String()+" acquire", keys, nothing, func(t *testing.T, s *Store) error { return acquireErr(t, s, claim) })
		add(k.String()+" acquire again", keys, held, func(t *testing.T, s *Store) error { return acquireErr(t, s, claim) })
		add(k.String()+" acquire what is held", keys, held,
			func(t *testing.T, s *Store) error { return acquireErr(t, s, other) })
		add(k.String()+" acquire all", keys, nothing, func(t *testing.T, s *Store) error {
			_, err := s.AcquireAll(t.Context(), []lock.Claim{kindClaim(lock.Exclusive, "m", "u:7"), claim})
			return err
		})
		add(k.String()+" release", keys, held,
			func(t *testing.T, s *Store) error { return releaseErr(t, s, kindReturn(k, "n", "u:7", 0)) })
		add(k.String()+" release what is free", keys, nothing, func(t *testing.T, s *Store) error {
			return releaseErr(t, s, kindReturn(k, "n", "u:7", 0))
		})
		add(k.String()+" force", keys, held, func(t *testing.T, s *Store) error {
			_, err := s.ForceRelease(t.Context(), "n", k)
			return err
		})
		add(k.String()+" renew", keys, held, func(t *testing.T, s *Store) (err error) {
			s.Renew(t.Context(), []lock.Renewal{{Name: "n", Kind: k, Owner: whole("u:7"), TTL: lease, Permits: claim.Permits}},
				func(_ int, e error) { err = e })
			return err
		})
		add(k.String()+" look", keys, held, func(t *testing.T, s *Store) error {
			_, err := s.Look(t.Context(), "n")
			return err
		})
		add(k.String()+" shorten", keys, held, func(t *testing.T, s *Store) error {
			return s.Shorten(t.Context(), lock.Renewal{Name: "n", Kind: k, Owner: whole("u:7"), TTL: lease / 2})
		})
		if k != lock.Semaphore {
			add(k.String()+" raise", keys, held, func(t *testing.T, s *Store) error {
				raised := claim
				raised.Fence = 1 << 51
				_, err := s.Raise(t.Context(), raised)
				return err
			})
		}
		if !k.Shared() {
			add(k.String()+" hand over", keys, held, func(t *testing.T, s *Store) error {
				r := kindReturn(k, "n", "u:7", 0)
				r.Next = &lock.Successor{Owner: whole("u:8"), TTL: lease}
				return releaseErr(t, s, r)
			})
		}
		if k != lock.Semaphore {
			add(k.String()+" hold twice, then once", keys, held, func(t *testing.T, s *Store) error {
				st, _ := s.Look(t.Context(), "n")
				twice := claim
				twice.Count, twice.Fence = 2, st.Fence
				once := kindReturn(k, "n", "u:7", 0)
				once.Remaining = 1
				return errors.Join(acquireErr(t, s, twice), releaseErr(t, s, once))
			})
		}
		if k.Placed() {
			add(k.String()+" leave", keys, held, func(t *testing.T, s *Store) error {
				return s.Leave(t.Context(), "n", k, wholes("u:8"))
			})
		}
	}
	permits := misfitKeys(lock.Semaphore)
	for _, before := range []func(*testing.T, *Store){nothing, func(t *testing.T, s *Store) {
		acquire(t, s, permitsClaim("n", "u:7", 1, 1))
	}} {
		add("set the limit", permits, before, func(t *testing.T, s *Store) error {
			_, err := s.SetLimit(t.Context(), "n", 7)
			return err
		})
		add("remove the limit", permits, before, func(t *testing.T, s *Store) error {
			_, err := s.RemoveLimit(t.Context(), "n")
			return err
		})
		add("adopt another limit", permits, before,
			func(t *testing.T, s *Store) error { return s.AdoptLimit(t.Context(), "n", 7) })
	}
	add("enlist", misfitKeys(lock.Fair, "u:7", "u:8"), nothing, func(t *testing.T, s *Store) error {
		_, err := s.Enlist(t.Context(), "n", wholes("u:8"), time.Minute)
		return err
	})
	add("succeed", misfitKeys(lock.Fair, "u:7", "u:8"), nothing, func(t *testing.T, s *Store) error {
		_, err := s.Succeed(t.Context(), "n", wholes("u:6", "u:7"), whole("u:8"), time.Minute)
		return err
	})
	r := lock.SessionRecord{ID: "u", Epoch: 1, Nonce: "a", TokenHash: "t"}
	record := []string{layout.Session("", "u")}
	begun := func(t *testing.T, s *Store) {
		if err := s.TakeSession(t.Context(), r, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	add("take a session", record, begun,
		func(t *testing.T, s *Store) error { return s.TakeSession(t.Context(), r, time.Minute) })
	add("keep a session", record, begun, func(_ *testing.T, s *Store) error {
		told := make(chan error, 1)
		s.StartKeepSession(lock.SessionKeep{SessionRecord: r, TTL: time.Minute}, func(err error) { told <- err })
		return <-told
	})
	add("end a session", record, begun, func(t *testing.T, s *Store) error { return s.EndSession(t.Context(), "u", 1) })
	return calls
}

var allKindsHere = []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore}

// misfitKeys are all keys that the scripts of a kind use for n.
func misfitKeys(k lock.Kind, owners ...string) []string {
	keys := map[lock.Kind]func(string) []string{
		lock.Exclusive: layout.PlainKeys, lock.Fair: layout.FairKeys, lock.Read: layout.RWKeys, lock.Write: layout.RWKeys,
		lock.Semaphore: layout.PermitKeys,
	}[k]("n")
	for _, o := range owners {
		switch k {
		case lock.Read:
			keys = append(keys, layout.HoldBase("n")+wholeID(o)+":rwlock_timeout:1",
				layout.HoldBase("n")+wholeID(o)+":rwlock_timeout:2")
		case lock.Write:
			keys = append(keys, layout.HoldBase("n")+wholeID(o)+":write:lockd_fence")
		default: // no keys of single holds
		}
	}
	return keys
}

func acquireErr(t *testing.T, s *Store, c lock.Claim) error {
	_, err := s.Acquire(t.Context(), c)
	return err
}

func releaseErr(t *testing.T, s *Store, r lock.Return) error {
	_, err := s.Release(t.Context(), r)
	return err
}

// keyspace is what is in all keys. It leaves out times.
func keyspace(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, key := range c.Keys(t.Context(), "*").Val() {
		all[key] = fmt.Sprintf("%s %q", c.Type(t.Context(), key).Val(), c.Dump(t.Context(), key).Val())
	}
	return all
}

// Whatever is at any key of any script: a definite error changed nothing, and any other one leaves nothing behind once
// the claims are given back.
func TestAKeyOfAnotherTypeNeverFailsAScriptHalfWay(t *testing.T) {
	t.Parallel()
	for _, few := range []int{fewTogether, 1} {
		t.Run(fmt.Sprint("together from ", few), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			cfg := quick(srv)
			cfg.fewTogether = few
			neverHalfWay(t, open(t, cfg), srv.Client())
		})
	}
}

func neverHalfWay(t *testing.T, s *Store, c *redis.Client) {
	plants := map[string]func(key string) error{
		"text": func(key string) error { return c.Set(t.Context(), key, "text", 0).Err() },
		// of the right types, and not ours
		"hash with a number": func(key string) error { return c.HSet(t.Context(), key, "credits", 100).Err() },
		"hash with a mode":   func(key string) error { return c.HSet(t.Context(), key, "mode", "read", "speed", "7").Err() },
		"hash":               func(key string) error { return c.HSet(t.Context(), key, "a", "b", "c", "d").Err() },
		"list":               func(key string) error { return c.RPush(t.Context(), key, "thing").Err() },
		"zset":               func(key string) error { return c.ZAdd(t.Context(), key, redis.Z{Member: "thing"}).Err() },
	}
	definite, tried := 0, 0
	for _, call := range misfitCalls() {
		for _, key := range call.keys {
			plants["number"] = func(key string) error { return c.Set(t.Context(), key, 100, 0).Err() }
			if key == layout.Token("n") || strings.Contains(key, "rwlock_timeout") || strings.Contains(key, "lockd_fence") {
				delete(plants, "number") // which is what is there
			}
			for what, plant := range plants {
				if err := c.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				call.before(t, s)
				c.Del(t.Context(), key)
				if err := plant(key); err != nil {
					t.Fatal(err)
				}
				if key == "n" && what == "number" && c.Exists(t.Context(), layout.PermitsOut("n")).Val() == 1 {
					continue // it has permits out, and so it is a semaphore
				}
				planted := keyspace(t, c)
				tried++
				err := call.call(t, s)
				where := fmt.Sprintf("%s with a %s at %s", call.name, what, key)
				after := keyspace(t, c)
				if after[key] != planted[key] {
					t.Errorf("%s: got %v, and %s became %s", where, err, planted[key], after[key])
				}
				if left := c.PTTL(t.Context(), key).Val(); left >= 0 { // it was planted without an end
					t.Errorf("%s: got %v, and it ends in %v", where, err, left)
				}
				if key == "n" && (strings.Contains(call.name, "acquire") || strings.Contains(call.name, "limit")) &&
					call.name != "adopt another limit" && !errors.Is(err, lock.ErrKindMismatch) {
					t.Errorf("%s: got %v, want it refused as something else", where, err)
				}
				switch {
				case errors.Is(err, lock.ErrOutcomeUnknown):
					t.Errorf("%s: no check found it: %v", where, err)
				case errors.Is(err, lock.ErrKindMismatch) && !strings.Contains(call.name, "then once"):
					definite++
					if !maps.Equal(after, planted) {
						t.Errorf("%s: got %v, but it changed\n%v\nto\n%v", where, err, planted, after)
					}
				}
			}
		}
	}
	t.Logf("%d of %d calls were refused for good", definite, tried)
}
