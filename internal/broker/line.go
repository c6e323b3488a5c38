package broker

// line is a list of waiters, the next one in front. A waiter is in one at most, and has its own links: a queue that nobody
// waits in takes little room.
type line struct {
	front, back *waiter
	n           int32
}

// links are a waiter's place in a line.
type links struct {
	before, behind *waiter
	lined          bool
}

// len is how many wait.
func (l *line) len() int { return int(l.n) }

// insert puts a waiter behind another one, in front of all if that is nil.
func (l *line) insert(w, before *waiter) {
	behind := l.front
	if before != nil {
		behind = before.behind
	}
	w.links = links{before, behind, true}
	l.link(before, w)
	l.link(w, behind)
	l.n++
}

func (l *line) remove(w *waiter) {
	l.link(w.before, w.behind)
	w.links = links{}
	l.n--
}

// link has one waiter stand before another one; nil stands for the end of the line.
func (l *line) link(before, behind *waiter) {
	if before == nil {
		l.front = behind
	} else {
		before.behind = behind
	}
	if behind == nil {
		l.back = before
	} else {
		behind.before = before
	}
}

func (l *line) toFront(w *waiter) {
	l.remove(w)
	l.insert(w, nil)
}

func (l *line) toBack(w *waiter) {
	l.remove(w)
	l.insert(w, l.back)
}
