package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
	// nodeTimeout is how long a node may be silent until the others call it failed, after ReplaceSoon. Within half of that
	// time all hear from each other.
	nodeTimeout = 2 * time.Second
	// patience is the same without ReplaceSoon: a busy machine stands still for some seconds.
	patience = time.Minute
	// failOverAgain is when to ask again for a fail-over, which fails after 5 s. The others do not vote for two in a row
	// to replace the same master.
	failOverAgain = 6 * time.Second
	// agreeWithin is how long all may take until they agree: some fail-overs, and much else that the machine may do.
	agreeWithin = 3 * time.Minute
)

// Cluster is a Redis Cluster that runs for one test: three masters with a replica each, who share the slots evenly.
// Servers are killed, paused and started again one by one, as any Server. Nobody takes the place of one that is silent,
// unless a test asks for that.
type Cluster struct {
	// Nodes are the masters of the beginning, and then their replicas in the same order.
	Nodes []*Server

	t       testing.TB
	ids     []string      // of Nodes
	timeout time.Duration // of nodes
}

// StartCluster runs a cluster with further arguments for each redis-server until the test ends. It returns when all
// nodes agree. See ReplaceSoon.
func StartCluster(t testing.TB, args ...string) *Cluster {
	t.Helper()
	own := []string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", fmt.Sprint(nodeTimeout.Milliseconds()),
		noFailOver, "yes",
		// Who has which replica is the test's business.
		"--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0",
	}
	c := &Cluster{t: t, timeout: patience, Nodes: startServers(t, 2*clusterMasters, append(own, args...)...)}
	for _, s := range c.Nodes {
		id, err := s.ask("cluster", "myid")
		if err != nil {
			t.Fatal(err)
		}
		c.ids = append(c.ids, id)
	}
	c.shareSlots()
	c.introduce()
	for i, s := range c.Nodes[clusterMasters:] {
		c.do(s, "cluster", "replicate", c.ids[i])
	}
	c.AwaitAgreement()
	c.setTimeout(c.timeout)
	return c
}

// noFailOver is the argument that keeps a replica from taking the place of a master that failed.
const noFailOver = "--cluster-replica-no-failover"

// ReplaceSoon makes a replica take the place of a master that is silent for 2 s, from now on. Call it before nodes are
// killed or paused that others should replace, or call failed.
func (c *Cluster) ReplaceSoon() {
	c.t.Helper()
	c.timeout = nodeTimeout
	for _, s := range c.Nodes {
		s.args = append(slices.Clone(s.args), noFailOver, "no") // when it is started again
		if s.Answers() {
			c.do(s, "config", "set", noFailOver[2:], "no")
		}
	}
	c.setTimeout(nodeTimeout)
}

// setTimeout tells the nodes that answer how long others may be silent.
func (c *Cluster) setTimeout(d time.Duration) {
	c.t.Helper()
	for _, s := range c.Nodes {
		if s.Answers() {
			c.do(s, "config", "set", "cluster-node-timeout", d.Milliseconds())
		}
	}
}

// soonTold makes nodes tell each other more often during do. When it returns they agree.
func (c *Cluster) soonTold(do func()) {
	c.t.Helper()
	c.setTimeout(nodeTimeout)
	do()
	c.AwaitAgreement() // else a failed node would stay so for twice the time that is set now
	c.setTimeout(c.timeout)
}

// shareSlots gives the slots to the masters. Their epochs must differ, or they would have to settle on some first.
func (c *Cluster) shareSlots() {
	c.t.Helper()
	for i, s := range c.Nodes {
		c.do(s, "cluster", "set-config-epoch", i+1)
	}
	for i, s := range c.Nodes[:clusterMasters] {
		add := []any{"cluster", "addslots"} // Redis 6.2 knows no ranges
		for slot := clusterSlots * i / clusterMasters; slot < clusterSlots*(i+1)/clusterMasters; slot++ {
			add = append(add, slot)
		}
		c.do(s, add...)
	}
}

// introduce has each node meet each, which is quicker than gossip, and waits until they know each other.
func (c *Cluster) introduce() {
	c.t.Helper()
	for i, s := range c.Nodes {
		for _, other := range c.Nodes[i+1:] {
			host, port := other.hostPort()
			c.do(s, "cluster", "meet", host, port)
		}
	}
	c.await("the nodes know each other", func() error {
		for _, s := range c.Nodes {
			nodes, err := s.view()
			if err != nil {
				return err
			}
			if len(nodes) != len(c.Nodes) {
				return fmt.Errorf("%s knows %d nodes", s.Addr, len(nodes))
			}
		}
		return nil
	})
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return Addrs(c.Nodes) }

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	slot, err := c.anyNode().own.ClusterKeySlot(context.Background(), key).Result()
	if err != nil {
		c.t.Fatal(err)
	}
	return int(slot)
}

// MasterOf is the node that serves a slot, as all nodes agree.
func (c *Cluster) MasterOf(slot int) *Server {
	c.t.Helper()
	return c.master(c.agreed(), slot)
}

// ReplicaOf is a replica of a master that answers, as all nodes agree.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	c.t.Helper()
	id := c.id(master)
	for _, n := range c.agreed() {
		if s := c.node(n.id); n.master == id && s.Answers() {
			return s
		}
	}
	c.t.Fatalf("%s has no replica", master.Addr)
	return nil
}

// FailOver has a replica take the place of its master, in good order, and waits until all nodes agree.
func (c *Cluster) FailOver(replica *Server) {
	c.t.Helper()
	c.soonTold(func() {
		c.t.Helper()
		var asked time.Time
		c.await(replica.Addr+" has taken the place of its master", func() error {
			if role, err := replica.role(); err == nil && role == "master" {
				return nil
			}
			if time.Since(asked) > failOverAgain {
				asked = time.Now()
				c.do(replica, "cluster", "failover")
			}
			return errors.New("it is a replica")
		})
		c.AwaitMaster(replica)
	})
}

// AwaitMaster waits until all nodes that answer agree that a node serves slots. A replica comes to this when its master
// was killed or paused, see ReplaceSoon.
func (c *Cluster) AwaitMaster(s *Server) {
	c.t.Helper()
	id := c.id(s)
	c.await(s.Addr+" is a master", func() error {
		nodes, err := c.view()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.id == id && n.slots != "" }) {
			return errors.New("it serves no slots")
		}
		return nil
	})
}

// AwaitAgreement waits until all nodes that answer agree about all nodes, serve all slots, and replicate.
func (c *Cluster) AwaitAgreement() { c.t.Helper(); c.agreed() }

// agreed is AwaitAgreement, and what they agree about.
func (c *Cluster) agreed() (nodes []node) {
	c.t.Helper()
	c.await("the nodes agree", func() (err error) {
		nodes, err = c.view()
		return err
	})
	return nodes
}

func (c *Cluster) await(what string, try func() error) { c.t.Helper(); await(c.t, what, try) }

// await tries until it works, or ends the test.
func await(t testing.TB, what string, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(agreeWithin); ; time.Sleep(20 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v it is not so that %s: %v", agreeWithin, what, err)
		}
	}
}

func (c *Cluster) do(s *Server, command ...any) {
	c.t.Helper()
	if _, err := s.ask(command...); err != nil {
		c.t.Fatalf("%s: %.60v: %v", s.Addr, command, err)
	}
}

// anyNode is a node that answers.
func (c *Cluster) anyNode() *Server {
	c.t.Helper()
	i := slices.IndexFunc(c.Nodes, (*Server).Answers)
	if i < 0 {
		c.t.Fatal("no node of the cluster answers")
	}
	return c.Nodes[i]
}

func (c *Cluster) id(s *Server) string { return c.ids[slices.Index(c.Nodes, s)] }

func (c *Cluster) node(id string) *Server { return c.Nodes[slices.Index(c.ids, id)] }

// ask runs a command. The answer is a text.
func (s *Server) ask(command ...any) (string, error) {
	return s.own.Do(context.Background(), command...).Text()
}

// Proxies stand before the nodes, in their order. The nodes tell clients to connect there.
func (c *Cluster) Proxies() []*Proxy {
	c.t.Helper()
	var ps []*Proxy
	var ports []string
	for _, s := range c.Nodes {
		p := StartProxy(c.t, s.Addr)
		_, port, _ := strings.Cut(p.Addr, ":")
		ps, ports = append(ps, p), append(ports, port)
		c.do(s, "config", "set", "cluster-announce-port", port)
	}
	c.soonTold(func() {
		c.t.Helper()
		c.await("the nodes tell of their proxies", func() error { return c.tellOf(ports) })
	})
	return ps
}

// tellOf says which node does not know the port of another one. ports are in the order of the nodes.
func (c *Cluster) tellOf(ports []string) error {
	for _, s := range c.Nodes {
		text, err := s.ask("cluster", "nodes")
		if err != nil {
			return err
		}
		for i, port := range ports {
			if c.Nodes[i] == s { // Redis 6.2 does not tell its own
				continue
			}
			if !strings.Contains(text, ":"+port+"@") {
				return fmt.Errorf("%s does not know that of %s", s.Addr, c.Nodes[i].Addr)
			}
		}
	}
	return nil
}
