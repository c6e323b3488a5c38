package redlock

import "github.com/lockd-io/lockd/internal/lock"

// Watch implements lock.Store. The end of a hold is told as sure when a majority told of it, of members that vote: what
// a minority undoes was held by nobody. An end that fewer members told of is Unsure. So is the end of another program's
// hold, which has no fence, because members may mean different holds.
func (s *Store) Watch(name string, notify func(lock.Notice)) (stop func()) {
	w := s.watcher(notify)
	return w.at(func(m *member) func() { return m.Watch(name, func(n lock.Notice) { w.hear(m.number, n) }) })
}

func (s *Store) watcher(notify func(lock.Notice)) *watcher {
	return &watcher{listening: listening{s: s, notify: notify}, told: make(map[endOf]set)}
}

// keptEnds bounds how many ends a watcher remembers. One member may tell of many readers' ends before another member
// tells of the first.
const keptEnds = 1024

// watcher counts who told of the end of which hold.
type watcher struct {
	listening
	told    map[endOf]set
	order   []endOf // the keys of told, the oldest first
	flushed set
}

// endOf says which hold ended. It has no cause, because members may name different causes for one end.
type endOf struct {
	fence lock.Fence
	hold  string
}

func (w *watcher) hear(i int, n lock.Notice) {
	switch n.What {
	case lock.NoticeListening, lock.NoticeDeaf:
		w.hears(i, n.What == lock.NoticeListening)
		n = lock.Notice{What: lock.NoticeChanged} // or it may have: a Seen by the members that are left shows it
	case lock.NoticeEnded:
		sure, known := w.sure(i, n)
		if known {
			return
		}
		n.Unsure = !sure
		if n.Unsure && n.Cause == lock.EndHandedOver { // a minority cannot hand a name over
			n.Cause = lock.EndReleased
		}
	case lock.NoticeFlushed:
		if !w.lost(i) {
			n = lock.Notice{What: lock.NoticeChanged}
		}
	default:
	}
	w.tell(n)
}

// sure notes that a member told of an end. It says whether a majority of members that vote has told of it, and whether
// that was known before.
func (w *watcher) sure(i int, n lock.Notice) (sure, known bool) {
	if n.Fence == 0 && n.Hold == "" {
		return false, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	of := endOf{n.Fence, n.Hold}
	told, found := w.told[of]
	if !found {
		if w.order = append(w.order, of); len(w.order) > keptEnds {
			delete(w.told, w.order[0])
			w.order = w.order[1:]
		}
	}
	known = w.s.voters(told) >= w.s.quorum
	told.add(i)
	w.told[of] = told
	return w.s.voters(told) >= w.s.quorum, known
}

// lost notes that a member lost its data, and says whether so many did that no majority has its data.
func (w *watcher) lost(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushed.add(i)
	if w.flushed.len() <= len(w.s.members)-w.s.quorum {
		return false
	}
	w.flushed = 0
	return true
}
