package faultrun

import (
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// durable are the arguments of a server that has every write on its disk.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestStandalone(t *testing.T) {
	w := newWorld(t)
	s := redistest.Start(t, durable...)
	link := redistest.StartProxy(t, s.Addr)
	w.servers = []*redistest.Server{s}
	w.env = []string{"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + link.Addr}
	w.faults = []trouble{
		{what: "Redis is killed", do: func() { w.killed(s, (*redistest.Server).Restart) }},
		{
			what: "Redis is killed and its data are lost", forgets: true,
			do: func() { w.killed(s, (*redistest.Server).RestartEmpty) },
		},
		{what: "Redis stops", do: func() { w.pause(s) }},
		{what: "the network of Redis fails", do: func() { w.spoil(link) }},
		{what: "SCRIPT FLUSH", do: w.flushScripts},
		{what: "FLUSHALL", forgets: true, do: func() {
			if err := s.Client().FlushAll(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}},
	}
	w.run()
}

// killed kills a server, and restarts it after a while.
func (w *world) killed(s *redistest.Server, restart func(*redistest.Server)) {
	s.Kill()
	w.sleep(0, 2*time.Second)
	restart(s)
}

func TestSentinel(t *testing.T) {
	w := newWorld(t)
	k := redistest.StartSentinels(t, durable...)
	link := redistest.StartProxy(t, k.Addrs[0])
	w.servers = k.Servers
	w.env = []string{
		"LOCKD_STORE_KIND=sentinel", "LOCKD_REDIS_SENTINEL_MASTER=" + redistest.MasterName,
		"LOCKD_REDIS_SENTINEL_ADDRS=" + strings.Join([]string{link.Addr, k.Addrs[1], k.Addrs[2]}, ","),
	}
	w.faults = []trouble{
		{what: "the master is killed", forgets: true, do: func() {
			m := k.Master()
			m.Kill()
			k.Settle(m.Addr)
			m.Restart()
			k.Settle("")
		}},
		{what: "the master is killed, and its data are lost", forgets: true, do: func() {
			m := k.Master()
			m.Kill()
			k.Settle(m.Addr)
			m.RestartEmpty()
			k.Settle("")
		}},
		{what: "the master stops", forgets: true, do: func() {
			w.pause(k.Master())
			k.Settle("")
		}},
		{what: "a replica stops", do: func() {
			for _, s := range k.Servers {
				if s != k.Master() {
					w.pause(s)
					break
				}
			}
			k.Settle("")
		}},
		{what: "a fail-over", forgets: true, do: func() { k.FailOver() }},
		{what: "the network of a sentinel fails", do: func() { w.spoil(link) }},
		{what: "SCRIPT FLUSH", do: w.flushScripts},
	}
	w.run()
}

func TestCluster(t *testing.T) {
	w := newWorld(t)
	k := redistest.StartCluster(t, append([]string{"--cluster-require-full-coverage", "no"}, durable...)...)
	w.servers = k.Nodes
	w.env = []string{"LOCKD_STORE_KIND=cluster", "LOCKD_REDIS_CLUSTER_ADDRS=" + strings.Join(k.Addrs(), ",")}
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
		{what: "SCRIPT FLUSH", do: w.flushScripts},
	}
	w.run()
}

func (w *world) moveSlot(k *redistest.Cluster, slot int) {
	m := k.Migrate(slot)
	w.sleep(0, 300*time.Millisecond)
	m.Move(1)
	w.sleep(0, 300*time.Millisecond)
	m.Finish()
}

func TestRedlock(t *testing.T) {
	w := newWorld(t)
	w.servers = redistest.StartMasters(t, 5, durable...)
	w.rules.votes = true
	links := make([]*redistest.Proxy, len(w.servers))
	var addrs []string
	for i, s := range w.servers {
		links[i] = redistest.StartProxy(t, s.Addr)
		addrs = append(addrs, links[i].Addr)
	}
	w.env = []string{
		"LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS=" + strings.Join(addrs, ","),
		"LOCKD_REDLOCK_QUARANTINE=" + (ttl + time.Second).String(),
	}
	minority := func(do func(i int)) func() {
		return func() {
			for _, i := range w.rand.Perm(len(links))[:1+w.rand.IntN(2)] {
				do(i)
			}
		}
	}
	// Two that stop at a time.
	paused := func() {
		some := w.rand.Perm(len(links))[:1+w.rand.IntN(2)]
		for _, i := range some {
			w.servers[i].Pause()
		}
		time.Sleep(w.lasts())
		for _, i := range some {
			w.servers[i].Resume()
		}
	}
	w.faults = []trouble{
		{what: "masters are killed", do: minority(func(i int) { w.killed(w.servers[i], (*redistest.Server).Restart) })},
		{what: "masters are killed and their data are lost", do: minority(func(i int) {
			w.killed(w.servers[i], (*redistest.Server).RestartEmpty)
		})},
		{what: "masters stop", do: paused},
		{what: "the network of masters fails", do: func() {
			i := w.rand.Perm(len(links))
			w.spoil(links[i[0]], links[i[1]])
		}},
		{what: "SCRIPT FLUSH", do: w.flushScripts},
	}
	for i := range w.faults { // a minority at a time: what forgot votes again before the next
		do := w.faults[i].do
		w.faults[i].do = func() { do(); w.allVote() }
	}
	w.run()
}

// allVote waits until all masters are there and vote.
func (w *world) allVote() {
	w.t.Helper()
	harness.Until(w.t, "all masters vote", func() bool {
		for _, d := range w.replicas {
			_, body := d.Get("/metrics")
			for line := range strings.Lines(body) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "lockd_redlock_member_up{") && strings.HasSuffix(line, " 0") ||
					strings.HasPrefix(line, "lockd_redlock_member_quarantined{") && strings.HasSuffix(line, " 1") {
					return false
				}
			}
		}
		return true
	})
}
