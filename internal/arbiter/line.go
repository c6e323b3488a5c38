package arbiter

// line is a list of waiters, the next one in front. A waiter is in one at most, and has its own links: a queue that
// nobody waits in takes little room.
type line[R any] struct {
	front, back *Waiter[R]
	n           int32
}

// links are a waiter's place in a line.
type links[R any] struct {
	before, behind *Waiter[R]
	lined          bool
}

// insert puts a waiter behind another one, in front of all if that is nil.
func (l *line[R]) insert(w, before *Waiter[R]) {
	behind := l.front
	if before != nil {
		behind = before.behind
	}
	w.links = links[R]{before, behind, true}
	l.link(before, w)
	l.link(w, behind)
	l.n++
}

func (l *line[R]) remove(w *Waiter[R]) {
	l.link(w.before, w.behind)
	w.links = links[R]{}
	l.n--
}

// link has one waiter stand before another one; nil stands for the end of the line.
func (l *line[R]) link(before, behind *Waiter[R]) {
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

func (l *line[R]) toFront(w *Waiter[R]) {
	l.remove(w)
	l.insert(w, nil)
}

func (l *line[R]) toBack(w *Waiter[R]) {
	l.remove(w)
	l.insert(w, l.back)
}
