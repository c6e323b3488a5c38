package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// thread is one session of its own, which waits for a name.
type thread struct {
	client *client.Client
	holds  *client.Lock
	got    chan *client.Lock
	failed chan error
}

// threads take a name each, over two replicas in turn, and then wait for that of the next one. The last one closes the
// circle.
func threads(t *testing.T, n int, at []*harness.Lockd, opts ...client.Option) (all []*thread) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("thread %d", i)
		opts := append([]client.Option{client.WithName(name), client.WithSessionTTL(time.Minute)}, opts...)
		th := &thread{client: at[i%2].Dial(t, opts...), got: make(chan *client.Lock, 1), failed: make(chan error, 1)}
		th.holds = mustLockBy(t, th.client, fmt.Sprintf("%d-%d", n, i), i)
		all = append(all, th)
	}
	for i, th := range all {
		go func() {
			l, err := th.client.Lock(context.Background(), fmt.Sprintf("%d-%d", n, (i+1)%n), by(i))
			if err != nil {
				th.failed <- err
				return
			}
			th.got <- l
		}()
		harness.Until(t, "it waits", func() bool { return at[i%2].Metric("lockd_waiters") == float64(i/2+1) })
	}
	return all
}

// by is who asks: some name a holder, others an actor.
func by(i int) client.LockOption {
	if i%3 == 0 {
		return client.Holder("main")
	}
	return client.Actor(fmt.Sprintf("actor %d", i))
}

func mustLockBy(t *testing.T, c *client.Client, name string, i int) *client.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, by(i), client.Annotation("has "+name))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// shown are the deadlocks that lockctl shows at a replica.
func shown(t *testing.T, d *harness.Lockd) (found []struct {
	Members []struct{ Name, Client, Address, Replica, Session string }
},
) {
	t.Helper()
	p := lockctl(d, "deadlocks", "-o", "json")
	v := struct {
		Deadlocks *[]struct {
			Members []struct{ Name, Client, Address, Replica, Session string }
		}
	}{&found}
	if err := json.Unmarshal([]byte(p.Stdout.String()), &v); err != nil {
		t.Fatalf("%v: %s %s", err, p.Stdout.String(), p.Stderr.String())
	}
	return found
}

// inCycles runs a test with cycles of so many sessions at two replicas, over each kind of store.
func inCycles(t *testing.T, test func(t *testing.T, n int, at []*harness.Lockd)) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		for _, n := range []int{2, 3, 5} {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				onlyLong(t, n != 3 || kind.masters > 1)
				test(t, n, kind.start(t).replicas(2))
			})
		}
	})
}

func TestDeadlocksOverTwoReplicasAreShownWithNamesAndClients(t *testing.T) {
	inCycles(t, func(t *testing.T, n int, at []*harness.Lockd) {
		a, b := at[0], at[1]
		lockctl(a, "deadlocks").Want(0, "no deadlocks\n")
		all := threads(t, n, at)
		sum := func() float64 {
			return a.Metric("lockd_deadlocks_found_total") + b.Metric("lockd_deadlocks_found_total")
		}
		harness.Until(t, "the deadlock is counted", func() bool { return sum() == 1 })
		for _, d := range at {
			found := shown(t, d)
			if len(found) != 1 || len(found[0].Members) != n {
				t.Fatalf("lockctl shows %+v, want one deadlock of %d", found, n)
			}
			for i, m := range found[0].Members {
				who := (n - 1 + i) % n
				if m.Client != fmt.Sprintf("thread %d", who) || m.Name != fmt.Sprintf("%d-%d", n, (who+1)%n) ||
					m.Replica != []string{"a", "b"}[who%2] || !strings.HasPrefix(m.Address, "127.0.0.1:") || m.Session == "" {
					t.Errorf("member %d is shown as %+v", i, m)
				}
			}
		}
		if err := all[n-1].client.Close(); err != nil { // the others go on
			t.Fatal(err)
		}
		for i := n - 2; i >= 0; i-- {
			mustUnlock(t, harness.Soon(t, "the next one has the lock", all[i].got))
			mustUnlock(t, all[i].holds)
		}
		harness.Until(t, "none is left", func() bool { return a.Metric("lockd_deadlocks")+b.Metric("lockd_deadlocks") == 0 })
		// what was found just now is told again
		harness.Until(t, "none is shown", func() bool { return len(shown(t, a)) == 0 })
		if sum() != 1 {
			t.Errorf("%v were counted, want one", sum())
		}
	})
}

func TestTheYoungestOfADeadlockFailsAndTheOthersGoOn(t *testing.T) {
	inCycles(t, func(t *testing.T, n int, at []*harness.Lockd) {
		all := threads(t, n, at, client.WithFailOnDeadlock())
		last := all[n-1]
		err := harness.Soon(t, "the youngest fails", last.failed)
		deadlock, ok := errors.AsType[*client.DeadlockError](err)
		if !ok || client.Reason(err) != "DEADLOCK" || !errors.Is(err, client.ErrDeadlock) || len(deadlock.Members) != n {
			t.Fatalf("got %v, want a deadlock of %d", err, n)
		}
		if m := deadlock.Members[0]; m.Client != fmt.Sprintf("thread %d", n-1) || m.Name != fmt.Sprintf("%d-0", n) ||
			m.Fence != all[0].holds.Fence() {
			t.Errorf("the youngest is told as %+v", m)
		}
		mustUnlock(t, last.holds) // what it holds it kept
		for i := n - 2; i >= 0; i-- {
			select {
			case err := <-all[i].failed:
				t.Fatalf("thread %d failed, too: %v", i, err)
			case l := <-all[i].got:
				mustUnlock(t, l)
				mustUnlock(t, all[i].holds)
			case <-time.After(patience):
				t.Fatalf("thread %d waits on", i)
			}
		}
	})
}

// What people ask one replica they are told of all.
func TestListsAreOfAllReplicas(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	ca := a.Dial(t, client.WithName("billing"), client.WithSessionTTL(time.Minute))
	mustLockBy(t, ca, "invoice", 0)
	mustLockBy(t, b.Dial(t, client.WithName("reports"), client.WithSessionTTL(time.Minute)), "table", 1)
	go func() { _, _ = ca.Lock(context.Background(), "table", client.Annotation("to read it")) }()
	harness.Until(t, "it waits", func() bool { return a.Metric("lockd_waiters") == 1 })
	takeAsRedisson(t, rs.Client(), "table2", time.Minute)
	rs.Client().Set(t.Context(), "redisson_lock_token:{table2}", 1, time.Minute) // of a fenced lock

	rows := func(args ...string) (rows []map[string]any) {
		t.Helper()
		p := lockctl(b, append(args, "-o", "json")...)
		if err := json.Unmarshal([]byte(p.Stdout.String()), &rows); err != nil || p.Code() != 0 {
			t.Fatalf("%v: %v: %s %s", args, err, p.Stdout.String(), p.Stderr.String())
		}
		return rows
	}
	all := rows("ls")
	if len(all) != 3 || all[0]["name"] != "invoice" || all[0]["client"] != "billing" || all[0]["replica"] != "a" ||
		all[0]["annotation"] != "has invoice" || all[0]["age_ms"] == nil || all[1]["client"] != "reports" ||
		all[1]["waiters"] != 1.0 ||
		all[2]["origin"] != "redisson" || all[2]["holder"] != redisson {
		t.Errorf("ls: %v", all)
	}
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"ls", "--client", "bill"}, 1},
		{[]string{"ls", "--replica", "b"}, 1},
		{[]string{"ls", "--min-age", "1h"}, 0},
		{[]string{"ls", "--prefix", "tab"}, 2},
		{[]string{"waiters"}, 1},
		{[]string{"waiters", "--replica", "b"}, 0},
		{[]string{"waiters", "table"}, 1},
		{[]string{"sessions"}, 2},
		{[]string{"sessions", "--replica", "a"}, 1},
		{[]string{"sessions", "--detached"}, 0},
	} {
		if got := rows(test.args...); len(got) != test.want {
			t.Errorf("%v: got %v, want %d", test.args, got, test.want)
		}
	}
	if w := rows("waiters")[0]; w["name"] != "table" || w["client"] != "billing" || w["replica"] != "a" ||
		w["annotation"] != "to read it" {
		t.Errorf("waiters: %v", w)
	}
	if text := lockctl(b, "ls").Stdout.String(); !strings.Contains(text, "a thread of Redisson") {
		t.Errorf("ls: %s", text)
	}
}
