package arbiter

// list is a list of waiters, the next one in front. A waiter is in one at most, and has its own links: a queue that
// nobody waits in takes little room.
type list[R any] struct {
	front, back *Waiter[R]
	n           int32
}

// links are a waiter's place in a list.
type links[R any] struct {
	before, behind *Waiter[R]
	listed         bool
	first          bool // it was brought to the front
}

// insert puts a waiter behind another one, in front of all if that is nil.
func (l *list[R]) insert(w, before *Waiter[R]) {
	behind := l.front
	if before != nil {
		behind = before.behind
	}
	w.links = links[R]{before: before, behind: behind, listed: true}
	l.link(before, w)
	l.link(w, behind)
	l.n++
}

func (l *list[R]) remove(w *Waiter[R]) {
	l.link(w.before, w.behind)
	w.links = links[R]{}
	l.n--
}

// link has one waiter stand before another one; nil stands for the end of the list.
func (l *list[R]) link(before, behind *Waiter[R]) {
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

func (l *list[R]) toFront(w *Waiter[R]) {
	l.remove(w)
	l.insert(w, nil)
	w.first = true
}

func (l *list[R]) toBack(w *Waiter[R]) {
	l.remove(w)
	l.insert(w, l.back)
}
