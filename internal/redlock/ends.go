package redlock

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Watch implements lock.Store. The end of a hold is told when a majority of the members told of it that vote: what a
// minority releases was held by nobody. While others are not heard or do not vote, it is told as unsure when they are
// all that lacks. That of another program has no fence, and is told when a majority told of such within gatherTime.
func (s *Store) Watch(name string, notify func(lock.Notice)) (stop func()) {
	w := s.watcher(notify)
	stops := make([]func(), 0, len(s.members)+1)
	for i, m := range s.members {
		stops = append(stops, m.Watch(name, func(n lock.Notice) { w.hear(i, n) }))
	}
	return w.stop(stops)
}

func (s *Store) watcher(notify func(lock.Notice)) *watcher {
	return &watcher{
		listening: listening{s: s, notify: notify},
		ends:      make(map[endOf]*tellers), others: make(map[lock.EndCause][]nameless),
	}
}

const (
	// keptEnds and keptFor bound how many ends a watcher remembers, and for how long, so that each is told once. One
	// member may tell of the ends of many readers before another one tells of the first.
	keptEnds = 4096
	keptFor  = 10 * time.Second
	// gatherTime is how long after each other members tell of the end of one hold that has no fence, lagTime how much
	// later than a majority another one does, or a majority than the first one, and maxNameless bounds such ends.
	gatherTime  = time.Second
	lagTime     = 100 * time.Millisecond
	maxNameless = 1024
)

// changePause is how long changes are gathered: all members tell of each.
const changePause = 5 * time.Millisecond

// watcher counts who told of the end of which hold.
type watcher struct {
	listening
	ends    map[endOf]*tellers
	order   []endOf                      // of ends, the oldest first
	others  map[lock.EndCause][]nameless // in the order in which they came to be known
	flushed set
	timer   bool // a change is to be told
}

// endOf says which hold ended. Members that repeat what others did first may name another cause.
type endOf struct {
	fence lock.Fence
	hold  string
}

// tellers are the members that told of an end, when the first and the last did, and what was passed on of it.
type tellers struct {
	at, last     time.Time
	told         set
	cause        lock.EndCause // as the last one told
	enough, sure bool
}

// nameless is an end of which nothing but the cause is known, that of a hold of another program.
type nameless struct {
	told   set
	at     time.Time // when the first member told of it
	passed time.Time // when it was passed on, zero if it was not
}

// over says whether no other member will tell of it. A member that had no part in the hold never does.
func (n nameless) over(now time.Time) bool {
	if n.passed.IsZero() {
		return now.Sub(n.at) > gatherTime
	}
	return now.Sub(n.passed) > lagTime+2*n.passed.Sub(n.at)
}

func (w *watcher) hear(i int, n lock.Notice) {
	switch n.What {
	case lock.NoticeListening, lock.NoticeDeaf:
		w.missed(i)
		w.hears(i, n.What == lock.NoticeListening)
		if n.What == lock.NoticeDeaf {
			for _, end := range w.overdue(time.Now()) {
				w.tellEnd(end)
			}
		}
	case lock.NoticeEnded:
		if tell, sure := w.ended(i, n); tell {
			n.Unsure = !sure
			w.tellEnd(n)
		}
		w.changed()
	case lock.NoticeFlushed:
		if w.lost(i) {
			w.tell(n)
		}
		w.changed()
	case lock.NoticeChanged:
		w.changed()
	default:
		w.tell(n)
	}
}

// tellEnd passes an end on.
func (w *watcher) tellEnd(n lock.Notice) {
	if n.Unsure && n.Cause == lock.EndHandedOver {
		time.AfterFunc(lagTime, func() { w.handedByFew(n) })
		return
	}
	w.tell(n)
}

// handedByFew tells of a hand-over that was unsure when a member told of it, if it still is. A minority cannot hand a
// name over; but while members are not heard, the first one that tells of a hand-over cannot know. Those may be heard
// again by now, and have told nothing: their message is lost.
func (w *watcher) handedByFew(n lock.Notice) {
	w.mu.Lock()
	t := w.ends[endOf{n.Fence, n.Hold}]
	sure := t != nil && t.sure
	w.mu.Unlock()
	if !sure {
		n.Cause = lock.EndReleased
		w.tell(n)
	}
}

// missed takes note that a member was not heard: of what was passed on it will not tell.
func (w *watcher) missed(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ends := range w.others {
		for k := range ends {
			if !ends[k].passed.IsZero() {
				ends[k].told.add(i)
			}
		}
	}
}

// ended takes note that a member told of an end, and says whether it is to be passed on, and as sure.
func (w *watcher) ended(i int, n lock.Notice) (tell, sure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.Fence == 0 && n.Hold == "" {
		return w.namelessLocked(i, n.Cause, time.Now()), true
	}
	now := time.Now()
	t := w.tellersLocked(endOf{n.Fence, n.Hold}, now)
	t.told.add(i)
	t.last, t.cause = now, n.Cause
	return w.countLocked(t)
}

// countLocked says whether an end is to be passed on, and as sure: once when enough told, and once when it is sure.
func (w *watcher) countLocked(t *tellers) (tell, sure bool) {
	enough, sure := w.enoughLocked(t.told)
	tell = enough && !t.enough || sure && !t.sure
	t.enough, t.sure = t.enough || enough, t.sure || sure
	return tell, sure
}

// overdue are the ends that a minority told of, and that are to be passed on since others are not heard any more: those
// may have died before they told. They are never sure: who voted when they were told of is not known any more.
func (w *watcher) overdue(now time.Time) (ends []lock.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range slices.Backward(w.order) {
		t := w.ends[of]
		if now.Sub(t.at) > keptFor {
			break
		}
		if t.enough {
			continue
		}
		if t.enough, _ = w.enoughLocked(t.told); t.enough {
			ends = append(ends, lock.Notice{
				What: lock.NoticeEnded, Cause: t.cause, Fence: of.fence, Hold: of.hold, Unsure: true, Came: t.last,
			})
		}
	}
	slices.Reverse(ends)
	return ends
}

// namelessLocked takes note that a member told of a nameless end, and says whether it is to be passed on. What a member
// tells is of the first end that it has not told of.
func (w *watcher) namelessLocked(i int, c lock.EndCause, now time.Time) bool {
	ends := slices.DeleteFunc(w.others[c], func(n nameless) bool { return n.over(now) })
	k := slices.IndexFunc(ends, func(n nameless) bool { return !n.told.has(i) })
	if k < 0 {
		ends = append(ends[max(0, len(ends)-maxNameless):], nameless{at: now})
		k = len(ends) - 1
	}
	w.others[c] = ends
	end := &ends[k]
	end.told.add(i)
	if _, enough := w.enoughLocked(end.told); !enough || !end.passed.IsZero() {
		return false
	}
	end.passed = now
	return true
}

// tellersLocked are those of an end. It forgets those of old ones.
func (w *watcher) tellersLocked(of endOf, now time.Time) *tellers {
	if t := w.ends[of]; t != nil {
		return t
	}
	for len(w.order) >= keptEnds || len(w.order) > 0 && now.Sub(w.ends[w.order[0]].at) > keptFor {
		delete(w.ends, w.order[0])
		w.order = w.order[1:]
	}
	t := &tellers{at: now}
	w.ends[of] = t
	w.order = append(w.order, of)
	return t
}

// enoughLocked says whether a majority told, or could have: of those that told no other is missing but such that are
// not heard or do not vote. It is sure if a majority told that votes.
func (w *watcher) enoughLocked(told set) (enough, sure bool) {
	if told == 0 {
		return false, false
	}
	all, voters := 0, 0
	for i, m := range w.s.members {
		votes := !w.s.quarantined(m)
		if told.has(i) && votes {
			voters++
		}
		if told.has(i) || !votes || !w.hearing.has(i) {
			all++
		}
	}
	return all >= w.s.quorum, voters >= w.s.quorum
}

// lost says whether so many members lost their data that no majority has it.
func (w *watcher) lost(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed.add(i)
	n := 0
	for i := range w.s.members {
		if w.flushed.has(i) {
			n++
		}
	}
	if n <= len(w.s.members)-w.s.quorum {
		return false
	}
	w.flushed = 0
	return true
}

// changed tells a little later that something changed.
func (w *watcher) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer || w.stopped {
		return
	}
	w.timer = true
	time.AfterFunc(changePause, func() {
		w.mu.Lock()
		w.timer = false
		w.mu.Unlock()
		w.tell(lock.Notice{What: lock.NoticeChanged})
	})
}
