package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// storeKind is where replicas keep locks: on one Redis, or on a majority of several.
type storeKind struct {
	name    string
	masters int
}

// onEachStore runs a test over each kind of store, side by side.
func onEachStore(t *testing.T, test func(t *testing.T, kind storeKind)) {
	for _, kind := range []storeKind{{"one Redis", 1}, {"a majority of three", 3}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// onlyLong skips a case that belongs to the second tier.
func onlyLong(t *testing.T, skip bool) {
	t.Helper()
	if skip {
		tier.Long(t)
	}
}

// store is one of a test.
type store struct {
	*testing.T
	masters []*redistest.Server
	clients []*redis.Client
	quorum  int
}

func (k storeKind) start(t *testing.T) *store {
	t.Helper()
	st := &store{T: t, masters: redistest.StartMasters(t, k.masters), quorum: k.masters/2 + 1}
	for _, m := range st.masters {
		st.clients = append(st.clients, m.Client())
	}
	return st
}

// startOver starts a lockd over one Redis, or over a majority of several.
func startOver(t *testing.T, addrs []string, env ...string) *harness.Lockd {
	t.Helper()
	if len(addrs) == 1 {
		return startLockd(t, addrs[0], env...)
	}
	all := append([]string{
		"LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS=" + strings.Join(addrs, ","),
	}, env...)
	return harness.StartLockdOn(t, lockdBin, all...)
}

// replicas runs so many servers over the store: a, b and so on.
func (st *store) replicas(n int) []*harness.Lockd {
	st.Helper()
	ds := make([]*harness.Lockd, n)
	for i := range ds {
		ds[i] = startOver(st.T, redistest.Addrs(st.masters), "LOCKD_REPLICA="+string(rune('a'+i)),
			"LOCKD_SESSION_TTL="+shortly.String())
	}
	return ds
}

// look is what a majority has of a lock: the fields that so many masters have, and for how long so many have them.
func (st *store) look(name string) sight {
	st.Helper()
	all := make([]sight, len(st.clients))
	count := map[string]int{}
	for i, c := range st.clients {
		all[i] = look(st.T, c, name)
		for field := range all[i].fields {
			count[field]++
		}
	}
	both := sight{from: all[0].from, to: all[len(all)-1].to, fields: map[string]string{}, pttl: -2}
	var left []sight
	for _, s := range all {
		has := false
		for field, value := range s.fields {
			if count[field] >= st.quorum {
				both.fields[field], has = value, true
			}
		}
		if has {
			left = append(left, s)
		}
	}
	if len(left) >= st.quorum {
		slices.SortFunc(left, func(a, b sight) int { return cmp.Compare(b.pttl, a.pttl) })
		both.pttl = left[st.quorum-1].pttl
	}
	return both
}

// each says whether something is true of each master.
func (st *store) each(is func(rc *redis.Client) bool) bool {
	return !slices.ContainsFunc(st.clients, func(rc *redis.Client) bool { return !is(rc) })
}

// free says whether no master has an owner of a name.
func (st *store) free(name string) bool {
	st.Helper()
	return st.each(func(rc *redis.Client) bool { return look(st.T, rc, name).owner() == "" })
}

// fence is the greatest one of a name that a master knows.
func (st *store) fence(name string) (greatest uint64) {
	st.Helper()
	for _, rc := range st.clients {
		fence, err := strconv.ParseUint(rc.Get(st.Context(), fmt.Sprintf("redisson_lock_token:{%s}", name)).Val(), 10, 64)
		if err != nil {
			st.Fatal(err)
		}
		greatest = max(greatest, fence)
	}
	return greatest
}
