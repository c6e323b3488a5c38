package faultrun

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// shortTTL is the TTL of sessions while everything fails, and the longest lease.
const shortTTL = 3 * time.Second

// topology starts the store of a world, and says what can fail of it.
type topology func(w *world)

// durable are the arguments of a server that has every write on its disk.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

var topologies = map[string]topology{
	"standalone": standalone, "sentinel": sentinel, "cluster": cluster, "redlock": redlock,
}

// Clients of two replicas use locks while all that a topology has fails. When they have left, nobody knows of them.
func TestEverythingFails(t *testing.T) {
	if *length == 0 {
		t.Skip("takes a while: make test-faults, or -length 10s")
	}
	for name, over := range topologies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shortTTL, over)
			// Holders may believe in what was forgotten until they are renewed after the store serves again: each second,
			// which may take an attempt or two of a second.
			w.rules.window = w.ttl
			w.start(2)
			for i, d := range w.replicas {
				w.fronts = append(w.fronts, redistest.StartProxy(t, d.Addr))
				w.at[i] = w.fronts[i].Addr
			}
			w.faults = append(w.faults,
				trouble{what: "SCRIPT FLUSH", do: w.flushScripts},
				trouble{what: "a replica of lockd is killed", do: w.killReplica},
				trouble{what: "the network of clients fails", do: func() { w.spoil(w.fronts[w.rand.IntN(len(w.fronts))]) }})
			calm := w.goroutines()
			// Somebody may have to wait until leases end of which nobody knows, and until he has tried all replicas.
			watched := w.watch(w.servers)
			w.play(w.players(true), *length, 3*w.ttl+harness.Patience)
			watched()
			for _, m := range w.all() {
				_ = m.Close()
			}
			w.must(w.check())
			if len(w.rec.holds) < 100 {
				t.Error("too little happened for this run to mean anything")
			}
			w.settle(calm)
		})
	}
}

func standalone(w *world) {
	s := redistest.Start(w.t, durable...)
	link := redistest.StartProxy(w.t, s.Addr)
	w.servers = []*redistest.Server{s}
	w.env = append(w.env, "LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR="+link.Addr)
	w.faults = []trouble{
		{what: "Redis is killed", do: func() { w.killed(s, (*redistest.Server).Restart) }},
		{
			what: "Redis is killed and its data are lost", forgets: true,
			do: func() { w.killed(s, (*redistest.Server).RestartEmpty) },
		},
		{what: "Redis stops", do: func() { w.pause(s) }},
		{what: "the network of Redis fails", do: func() { w.spoil(link) }},
		{what: "FLUSHALL", forgets: true, do: func() { w.must(s.Client().FlushAll(w.t.Context()).Err()) }},
	}
}

func sentinel(w *world) {
	k := redistest.StartSentinels(w.t, durable...)
	k.ReplaceSoon()
	link := redistest.StartProxy(w.t, k.Addrs[0])
	w.servers = k.Servers
	w.env = append(w.env, "LOCKD_STORE_KIND=sentinel", "LOCKD_REDIS_SENTINEL_MASTER="+redistest.MasterName,
		"LOCKD_REDIS_SENTINEL_ADDRS="+strings.Join([]string{link.Addr, k.Addrs[1], k.Addrs[2]}, ","))
	killMaster := func(restart func(*redistest.Server)) func() {
		return func() {
			m := k.Master()
			m.Kill()
			k.Settle(m.Addr)
			restart(m)
			k.Settle("")
		}
	}
	w.faults = []trouble{
		{what: "the master is killed", forgets: true, do: killMaster((*redistest.Server).Restart)},
		{
			what: "the master is killed, and its data are lost", forgets: true,
			do: killMaster((*redistest.Server).RestartEmpty),
		},
		{what: "the master stops", forgets: true, do: func() {
			w.pause(k.Master())
			k.Settle("")
		}},
		{what: "a replica stops", do: func() {
			master := k.Master()
			w.pause(k.Servers[slices.IndexFunc(k.Servers, func(s *redistest.Server) bool { return s != master })])
			k.Settle("")
		}},
		{what: "a fail-over", forgets: true, do: func() { k.FailOver() }},
		{what: "the network of a sentinel fails", do: func() { w.spoil(link) }},
	}
}

func cluster(w *world) {
	k := redistest.StartCluster(w.t, append([]string{"--cluster-require-full-coverage", "no"}, durable...)...)
	k.ReplaceSoon()
	w.servers = k.Nodes
	w.env = append(w.env, "LOCKD_STORE_KIND=cluster", "LOCKD_REDIS_CLUSTER_ADDRS="+strings.Join(k.Addrs(), ","))
	slot := func() int { return k.Slot([]string{"job 0", "job 1", "job 2", "job 3"}[w.rand.IntN(4)]) }
	w.faults = []trouble{
		{what: "a master is killed", forgets: true, do: func() {
			m := k.MasterOf(slot())
			r := k.ReplicaOf(m)
			m.Kill()
			k.AwaitMaster(r)
			if w.rand.IntN(2) == 0 {
				m.Restart()
			} else {
				m.RestartEmpty()
			}
			k.AwaitAgreement()
		}},
		{what: "a master stops", forgets: true, do: func() {
			w.pause(k.MasterOf(slot()))
			k.AwaitAgreement()
		}},
		{what: "a fail-over", do: func() { k.FailOver(k.ReplicaOf(k.MasterOf(slot()))) }},
		{what: "a slot moves", do: func() { w.moveSlot(k, slot()) }},
	}
}

func (w *world) moveSlot(k *redistest.Cluster, slot int) {
	m := k.Migrate(slot)
	w.sleep(0, 300*time.Millisecond)
	m.Move(1)
	w.sleep(0, 300*time.Millisecond)
	m.Finish()
}

func redlock(w *world) {
	w.servers = redistest.StartMasters(w.t, 5, durable...)
	w.rules.votes = true
	var links []*redistest.Proxy
	var addrs []string
	for _, s := range w.servers {
		links = append(links, redistest.StartProxy(w.t, s.Addr))
		addrs = append(addrs, links[len(links)-1].Addr)
	}
	w.env = append(w.env, "LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS="+strings.Join(addrs, ","),
		"LOCKD_REDLOCK_QUARANTINE="+(w.ttl+time.Second).String())
	// A minority at a time: what forgot votes again before the next.
	minority := func(do func(some []int)) func() {
		return func() {
			do(w.rand.Perm(len(links))[:1+w.rand.IntN(2)])
			w.allVote()
		}
	}
	oneByOne := func(restart func(*redistest.Server)) func() {
		return minority(func(some []int) {
			for _, i := range some {
				w.killed(w.servers[i], restart)
			}
		})
	}
	w.faults = []trouble{
		{what: "masters are killed", do: oneByOne((*redistest.Server).Restart)},
		{what: "masters are killed and their data are lost", do: oneByOne((*redistest.Server).RestartEmpty)},
		{what: "masters stop", do: minority(func(some []int) { w.pause(pick(w.servers, some)...) })},
		{what: "the network of masters fails", do: minority(func(some []int) { w.spoil(pick(links, some)...) })},
	}
}

func pick[T any](all []T, some []int) (picked []T) {
	for _, i := range some {
		picked = append(picked, all[i])
	}
	return picked
}

// allVote waits until all masters are there and vote.
func (w *world) allVote() {
	w.t.Helper()
	harness.Until(w.t, "all masters vote", func() bool {
		return !slices.ContainsFunc(w.replicas, func(d *harness.Lockd) bool {
			return sum(d, "lockd_redlock_member_up") < float64(len(w.servers)) || sum(d, "lockd_redlock_member_quarantined") > 0
		})
	})
}

func (w *world) goroutines() (n []float64) {
	for _, d := range w.replicas {
		n = append(n, d.Metric("go_goroutines"))
	}
	return n
}

// settle waits until nobody knows of any client any more.
func (w *world) settle(calm []float64) {
	w.t.Helper()
	begun := time.Now()
	var left string
	for end := begun.Add(3*w.ttl + harness.Patience); ; time.Sleep(50 * time.Millisecond) {
		if left = w.left(calm); left == "" {
			w.t.Logf("all clean after %v", time.Since(begun))
			return
		}
		if time.Now().After(end) {
			w.t.Errorf("left after %v: %s", time.Since(begun), left)
			return
		}
	}
}

// leftovers is how many goroutines of a replica may be left beyond those of its start: of connections to Redis.
const leftovers = 40

// left is what somebody still knows of clients.
func (w *world) left(calm []float64) string {
	for i, d := range w.replicas {
		for _, m := range []string{
			"lockd_sessions", "lockd_streams", "lockd_waiters", "lockd_watched_names", "lockd_locks_held",
		} {
			if n := sum(d, m); n != 0 {
				return fmt.Sprintf("%s of replica %d is %v", m, i, n)
			}
		}
		if n := d.Metric("go_goroutines"); n > calm[i]+leftovers {
			return fmt.Sprintf("%v goroutines of replica %d, and %v at its start", n, i, calm[i])
		}
	}
	for _, s := range w.servers {
		rc := s.Client()
		keys, err := rc.Keys(w.t.Context(), "*").Result()
		if err != nil {
			return err.Error()
		}
		keys = slices.DeleteFunc(keys, func(k string) bool {
			return strings.HasPrefix(k, "redisson_lock_token:{") || strings.HasPrefix(k, "lockd:")
		})
		channels, err := rc.PubSubChannels(w.t.Context(), "redisson*").Result()
		if err != nil || len(keys)+len(channels) > 0 {
			return fmt.Sprintf("in %s the keys %q and channels %q, %v", s.Addr, keys, channels, err)
		}
	}
	return ""
}
