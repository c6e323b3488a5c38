package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// view is what all nodes that answer agree about. Its error says which one does not.
func (c *Cluster) view() (common []node, err error) {
	answered := false
	for i, s := range c.Nodes {
		if !s.Answers() {
			continue
		}
		nodes, err := s.view()
		if err != nil {
			return nil, err
		}
		if err := c.works(s, nodes); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Addr, err)
		}
		if answered && !slices.Equal(nodes, common) {
			return nil, fmt.Errorf("%s sees %v, and those before %d see %v", s.Addr, nodes, i, common)
		}
		common, answered = nodes, true
	}
	if !answered {
		return nil, errors.New("no node answers")
	}
	return common, nil
}

// master is who serves a slot in a view, or nil.
func (c *Cluster) master(nodes []node, slot int) *Server {
	for _, n := range nodes {
		if n.has(slot) {
			return c.node(n.id)
		}
	}
	return nil
}

// works says what is missing in the eyes of a node.
func (c *Cluster) works(s *Server, nodes []node) error {
	info, err := s.ask("cluster", "info")
	if err != nil {
		return err
	}
	if state := infoField(info, "cluster_state"); state != "ok" {
		return fmt.Errorf("the state is %q", state)
	}
	if err := s.canReadBack(); err != nil {
		return err
	}
	me := node{}
	for _, n := range nodes {
		if c.node(n.id).Answers() == n.failed {
			return fmt.Errorf("it has not noticed how it is with %s", n.id)
		}
		if c.node(n.id) == s {
			me = n
		}
	}
	if me.master == "" || !c.node(me.master).Answers() {
		return nil
	}
	replication, err := s.ask("info", "replication")
	if link := infoField(replication, "master_link_status"); err == nil && link != "up" {
		err = fmt.Errorf("the link to the master is %q", link)
	}
	return err
}

// canReadBack says what a server would stumble over in its own file of nodes when it is started again. Valkey 8.1
// writes there that a replica is of another shard than its master, as long as it has not heard from both which shard
// they are of, and then it cannot start any more.
func (s *Server) canReadBack() error {
	text, err := os.ReadFile(filepath.Join(s.dir, "nodes.conf"))
	if err != nil {
		return err
	}
	return oneShardEach(string(text))
}

// shardLine is a node in its file: ID ADDR,HOSTNAME,...,shard-id=SHARD FLAGS MASTER|- ... Servers before 7.2 have no
// shards.
var shardLine = regexp.MustCompile(`(?m)^(\w+) \S*shard-id=(\w+)\S* \S+ (\w+|-) `)

// oneShardEach says which replica is of another shard than its master in a file of nodes.
func oneShardEach(text string) error {
	nodes := shardLine.FindAllStringSubmatch(text, -1)
	shards := map[string]string{}
	for _, n := range nodes {
		shards[n[1]] = n[2]
	}
	for _, n := range nodes {
		if of := shards[n[3]]; of != "" && of != n[2] {
			return fmt.Errorf("in its file %s is of another shard than its master %s", n[1], n[3])
		}
	}
	return nil
}

// node is a node in the eyes of another.
type node struct {
	id, master string // master is empty for a master
	slots      string // as CLUSTER NODES tells them
	failed     bool
}

// view is what CLUSTER NODES says. Each line is
//
//	ID ADDR FLAG,FLAG... MASTER|- PING-SENT PONG-RECEIVED EPOCH LINK [SLOT|FIRST-LAST|[SLOT->-ID]...]
func (s *Server) view() ([]node, error) {
	text, err := s.ask("cluster", "nodes")
	if err != nil {
		return nil, err
	}
	var nodes []node
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			return nil, fmt.Errorf("a node is %q", line)
		}
		flags := strings.Split(f[2], ",")
		for _, unsure := range []string{"handshake", "noaddr", "fail?"} {
			if slices.Contains(flags, unsure) {
				return nil, fmt.Errorf("%s sees %s as %q", s.Addr, f[1], f[2])
			}
		}
		// Only the two concerned tell of a slot that moves.
		slots := slices.DeleteFunc(f[8:], func(slot string) bool { return strings.HasPrefix(slot, "[") })
		nodes = append(nodes, node{
			id: f[0], master: strings.Trim(f[3], "-"), slots: strings.Join(slots, " "),
			failed: slices.Contains(flags, "fail"),
		})
	}
	slices.SortFunc(nodes, func(a, b node) int { return strings.Compare(a.id, b.id) })
	return nodes, nil
}

// has says whether the node serves a slot.
func (n node) has(slot int) bool {
	for r := range strings.FieldsSeq(n.slots) {
		var first, last int
		if _, err := fmt.Sscanf(r, "%d-%d", &first, &last); err != nil {
			last = first // it is one slot
		}
		if first <= slot && slot <= last {
			return true
		}
	}
	return false
}
