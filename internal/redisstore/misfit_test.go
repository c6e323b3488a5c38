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

// misfitCall is a call of the Store, for each script at least one. before sets the scene, if it is not nil.
type misfitCall struct {
	name   string
	keys   []string
	before func(t *testing.T, s *Store)
	call   func(t *testing.T, s *Store) error
}

// misfitCalls are calls that reach every script.
func misfitCalls() (calls []misfitCall) {
	for _, k := range kinds {
		calls = append(calls, misfitCallsOf(k)...)
	}
	permits := misfitKeys(lock.Semaphore)
	for _, before := range []func(*testing.T, *Store){nil, func(t *testing.T, s *Store) {
		acquire(t, s, permitsClaim("n", "u:7", 1, 1))
	}} {
		calls = append(calls,
			misfitCall{"set the limit", permits, before, func(t *testing.T, s *Store) error {
				_, err := s.SetLimit(t.Context(), "n", 7)
				return err
			}},
			misfitCall{"remove the limit", permits, before, func(t *testing.T, s *Store) error {
				_, err := s.RemoveLimit(t.Context(), "n")
				return err
			}},
			misfitCall{"adopt another limit", permits, before, func(t *testing.T, s *Store) error {
				return s.AdoptLimit(t.Context(), "n", 7)
			}})
	}
	r := lock.SessionRecord{ID: "u", Epoch: 1, Nonce: "a", TokenHash: "t"}
	take := func(t *testing.T, s *Store) error { return s.TakeSession(t.Context(), r, time.Minute) }
	begun := func(t *testing.T, s *Store) { must(t, take(t, s)) }
	queue, record := misfitKeys(lock.Fair, "u:7", "u:8"), []string{layout.Session("", "u")}
	return append(calls,
		misfitCall{"enlist", queue, nil, func(t *testing.T, s *Store) error {
			_, err := s.Enlist(t.Context(), "n", wholes("u:8"), time.Minute)
			return err
		}},
		misfitCall{"succeed", queue, nil, func(t *testing.T, s *Store) error {
			_, err := s.Succeed(t.Context(), "n", wholes("u:6", "u:7"), whole("u:8"), time.Minute)
			return err
		}},
		misfitCall{"take a session", record, begun, take},
		misfitCall{"keep a session", record, begun, func(_ *testing.T, s *Store) error {
			told := make(chan error, 1)
			s.StartKeepSession(lock.SessionKeep{SessionRecord: r, TTL: time.Minute}, func(err error) { told <- err })
			return <-told
		}},
		misfitCall{"end a session", record, begun, func(t *testing.T, s *Store) error {
			return s.EndSession(t.Context(), "u", 1)
		}},
		misfitCall{"end a session by force", record, begun, func(t *testing.T, s *Store) error {
			_, err := s.ForceEndSession(t.Context(), "u")
			return err
		}})
}

// misfitCallsOf are the calls of a kind, for n.
func misfitCallsOf(k lock.Kind) (calls []misfitCall) {
	claim := kindClaim(k, "n", "u:7")
	if k == lock.Semaphore {
		claim = permitsClaim("n", "u:7", 1, 1)
	}
	other, back, keys := claim, kindReturn(k, "n", "u:7", 0), misfitKeys(k, "u:7", "u:8")
	other.Owner, other.Place = whole("u:8"), time.Minute
	held := func(t *testing.T, s *Store) { acquire(t, s, claim) }
	add := func(name string, before func(*testing.T, *Store), call func(*testing.T, *Store) error) {
		calls = append(calls, misfitCall{k.String() + " " + name, keys, before, call})
	}
	claims := func(c lock.Claim) func(*testing.T, *Store) error {
		return func(t *testing.T, s *Store) error { return attempt(t, s, c) }
	}
	returns := func(r lock.Return) func(*testing.T, *Store) error {
		return func(t *testing.T, s *Store) error {
			_, err := lock.Await(t.Context(), s.StartRelease, r)
			return err
		}
	}
	add("acquire", nil, claims(claim))
	add("acquire again", held, claims(claim))
	add("acquire what is held", held, claims(other))
	add("acquire all", nil, func(t *testing.T, s *Store) error {
		_, err := s.AcquireAll(t.Context(), []lock.Claim{kindClaim(lock.Exclusive, "m", "u:7"), claim})
		return err
	})
	add("release", held, returns(back))
	add("release what is free", nil, returns(back))
	add("force", held, func(t *testing.T, s *Store) error {
		_, err := s.ForceRelease(t.Context(), "n", k)
		return err
	})
	add("renew", held, func(t *testing.T, s *Store) error { return renewing(t, s, renewal(claim, 0)) })
	add("look", held, func(t *testing.T, s *Store) error {
		_, err := s.Look(t.Context(), "n")
		return err
	})
	add("shorten", held, func(t *testing.T, s *Store) error { return s.Shorten(t.Context(), renewal(claim, 0)) })
	if k != lock.Semaphore {
		add("raise", held, func(t *testing.T, s *Store) error {
			raised := claim
			raised.Fence = 1 << 51
			_, err := s.Raise(t.Context(), raised)
			return err
		})
	}
	if !k.Shared() {
		next := back
		next.Next = &lock.Successor{Owner: whole("u:8"), TTL: lease}
		add("hand over", held, returns(next))
	}
	if k.Placed() {
		add("leave", held, func(t *testing.T, s *Store) error { return s.Leave(t.Context(), "n", k, wholes("u:8")) })
	}
	return calls
}

// misfitKeys are all keys that the scripts of a kind use for n.
func misfitKeys(k lock.Kind, owners ...string) []string {
	keys := layout.Keys(k, "n")
	for _, o := range owners {
		switch k {
		case lock.Read:
			keys = append(keys, layout.HoldBase("n")+wholeID(o)+":rwlock_timeout:1")
		case lock.Write:
			keys = append(keys, layout.HoldBase("n")+wholeID(o)+":write:lockd_fence")
		default: // no keys of single holds
		}
	}
	return keys
}

// keyspace is what is in all keys. It leaves out times.
func keyspace(t *testing.T, c *redis.Client) map[string]string {
	t.Helper()
	const all = `
		local all = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			all[#all + 1] = key
			all[#all + 1] = redis.call('TYPE', key).ok .. ' ' .. redis.call('DUMP', key)
		end
		return all`
	list, err := c.Eval(t.Context(), all, nil).StringSlice()
	must(t, err)
	keys := make(map[string]string)
	for i := 0; i < len(list); i += 2 {
		keys[list[i]] = list[i+1]
	}
	return keys
}

// Whatever is at any key of any script: a definite error changed nothing, and any other one leaves nothing behind once
// the claims are undone.
func TestAKeyOfAnotherTypeNeverFailsAScriptHalfWay(t *testing.T) {
	t.Parallel()
	for _, few := range []int{fewTogether, 1} {
		t.Run(fmt.Sprint("together from ", few), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			cfg := quick(srv)
			cfg.fewTogether = few
			s, c := open(t, cfg), srv.Client()
			definite, tried := 0, 0
			for _, call := range misfitCalls() {
				if few == 1 && !strings.Contains(call.name, "acquire") && !strings.Contains(call.name, "release") &&
					!strings.Contains(call.name, "hand over") {
					continue // it goes alone in any case
				}
				for _, key := range call.keys {
					for what, plant := range misfits(key) {
						tried++
						if errors.Is(neverHalfWay(t, s, c, call, key, what, plant), lock.ErrKindMismatch) {
							definite++
						}
					}
				}
			}
			t.Logf("%d of %d calls were refused for good", definite, tried)
		})
	}
}

// misfits are things that do not belong at a key of lockd's, and the commands that put them there.
func misfits(key string) map[string][]any {
	all := map[string][]any{
		"text": {"SET", key, "text"},
		"hash": {"HSET", key, "a", "b", "c", "d"},
		"list": {"RPUSH", key, "thing"},
		"zset": {"ZADD", key, 0, "thing"},
	}
	if key == "n" || key == layout.Session("", "u") { // of the right type, and not ours
		all["hash with a number"] = []any{"HSET", key, "credits", 100}
		all["hash with a mode"] = []any{"HSET", key, "mode", "read", "speed", "7"}
	}
	if key != layout.Token("n") && !strings.Contains(key, "rwlock_timeout") && !strings.Contains(key, "lockd_fence") {
		all["number"] = []any{"SET", key, 100} // which is what those have
	}
	return all
}

// neverHalfWay makes a call with something at one of its keys that is none of lockd's, and returns its error.
func neverHalfWay(t *testing.T, s *Store, c *redis.Client, call misfitCall, key, what string, plant []any) error {
	must(t, c.FlushAll(t.Context()).Err())
	if call.before != nil {
		call.before(t, s)
	}
	must(t, c.Del(t.Context(), key).Err())
	must(t, c.Do(t.Context(), plant...).Err())
	planted := keyspace(t, c)
	if _, out := planted[layout.PermitsOut("n")]; key == "n" && what == "number" && out {
		return nil // it has permits out, and so it is a semaphore
	}
	err := call.call(t, s)
	where := fmt.Sprintf("%s with a %s at %s", call.name, what, key)
	after := keyspace(t, c)
	if after[key] != planted[key] {
		t.Errorf("%s: got %v, and %q became %q", where, err, planted[key], after[key])
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
	case errors.Is(err, lock.ErrKindMismatch) && !strings.Contains(call.name, "then once") && !maps.Equal(after, planted):
		t.Errorf("%s: got %v, but it changed\n%q\nto\n%q", where, err, planted, after)
	}
	return err
}
