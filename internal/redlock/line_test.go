package redlock

import (
	"sync"
)

// line is the way of one replica to one member. What it asks about a name is carried out in the order in which it was
// asked. When a call is answered, no earlier one is carried out any more whose caller was told that nobody knows its
// outcome: the connection on which it was sent is dead.
type line struct {
	mu   sync.Mutex // guards the field below, and turns
	last map[string]*turn
}

// turn is that of a call.
type turn struct {
	earlier []*turn
	gone    chan struct{} // closed when those behind it need not wait for it
	passed  bool          // one behind it was carried out
	is      bool          // it is gone
}

// call is one call of a node.
type call struct {
	n    *node
	fate fate
	at   *turn // nil if it keeps no order
}

// begin chooses the fate of a call. Those about names take their turn.
func (n *node) begin(op string, names ...string) call {
	c := call{n: n, fate: n.next(op)}
	if len(names) == 0 {
		return c
	}
	l := &n.line
	l.mu.Lock()
	defer l.mu.Unlock()
	c.at = &turn{gone: make(chan struct{})}
	if l.last == nil {
		l.last = map[string]*turn{}
	}
	for _, name := range names {
		if before := l.last[name]; before != nil {
			c.at.earlier = append(c.at.earlier, before)
		}
		l.last[name] = c.at
	}
	return c
}

// over is called when nobody behind a call waits for it: it is never carried out, or its caller has given up.
func (c call) over() {
	if c.at != nil {
		c.n.line.mu.Lock()
		defer c.n.line.mu.Unlock()
		c.at.leaveLocked()
	}
}

func (p *turn) leaveLocked() {
	if !p.is {
		p.is = true
		close(p.gone)
	}
}

// carryOut does a call when its turn has come, and says whether it did.
func (c call) carryOut(do func()) bool {
	if c.at == nil {
		do()
		return true
	}
	c.n.line.mu.Lock()
	earlier := c.at.earlier
	c.n.line.mu.Unlock()
	for _, p := range earlier {
		<-p.gone
	}
	c.n.line.mu.Lock()
	defer c.n.line.mu.Unlock()
	if c.at.passed {
		return false
	}
	c.at.passLocked()
	do()
	c.at.leaveLocked()
	return true
}

// passLocked has all before it not be carried out any more.
func (p *turn) passLocked() {
	for _, e := range p.earlier {
		if !e.passed {
			e.passed = true
			e.passLocked()
		}
	}
	p.earlier = nil
}
