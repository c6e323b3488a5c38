package redistest

import (
	"fmt"
	"slices"
	"time"
)

// moveWithin is how long a node may take to hand over some keys.
const moveWithin = 5 * time.Second

// Migration is a slot on its way from one master to another. The steps are those of an operator's tool: the test says
// when each is done, and what happens in between.
type Migration struct {
	From, To *Server

	c    *Cluster
	slot int
}

// Migrate begins to move a slot to the next master. From now on the slot's keys that are not found on the old master
// are asked of the new one (ASK). The keys are still where they were.
func (c *Cluster) Migrate(slot int) *Migration {
	c.t.Helper()
	nodes := c.agreed()
	m := &Migration{c: c, slot: slot, From: c.master(nodes, slot)}
	first := slices.Index(c.Nodes, m.From) + 1
	for _, s := range slices.Concat(c.Nodes[first:], c.Nodes[:first]) {
		if slices.ContainsFunc(nodes, func(n node) bool { return n.id == c.id(s) && n.slots != "" }) {
			m.To = s
			break
		}
	}
	c.do(m.To, "cluster", "setslot", slot, "importing", c.id(m.From))
	c.do(m.From, "cluster", "setslot", slot, "migrating", c.id(m.To))
	return m
}

// Move moves at most n keys of the slot, and says how many it moved.
func (m *Migration) Move(n int) int {
	m.c.t.Helper()
	keys, err := m.From.own.ClusterGetKeysInSlot(m.c.t.Context(), m.slot, n).Result()
	if err != nil {
		m.c.t.Fatal(err)
	}
	m.MoveKeys(keys...)
	return len(keys)
}

// MoveKeys moves these keys of the slot.
func (m *Migration) MoveKeys(keys ...string) {
	m.c.t.Helper()
	if len(keys) == 0 {
		return
	}
	host, port := m.To.hostPort()
	move := []any{"migrate", host, port, "", 0, moveWithin.Milliseconds(), "keys"}
	for _, key := range keys {
		move = append(move, key)
	}
	m.c.do(m.From, move...)
}

// Finish moves the keys that are left, gives the slot to the new master, and waits until all nodes agree (MOVED).
func (m *Migration) Finish() {
	m.c.t.Helper()
	for m.Move(1000) > 0 {
	}
	// The new master hears of it first: else nobody would have the slot if the old one failed in between.
	for _, s := range []*Server{m.To, m.From} {
		m.c.do(s, "cluster", "setslot", m.slot, "node", m.c.id(m.To))
	}
	m.c.await("the slot has moved", func() error {
		nodes, err := m.c.view()
		if err == nil && m.c.master(nodes, m.slot) != m.To {
			err = fmt.Errorf("all agree that %s has it", m.c.master(nodes, m.slot).Addr)
		}
		return err
	})
}
