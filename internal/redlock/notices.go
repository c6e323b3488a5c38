package redlock

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// fewPause is how long a release that less than a majority told of waits for others, and up to as long again: those who
// wait on several replicas must not try all at once.
const fewPause = 10 * time.Millisecond

// listening is what is common to those who listen at all members.
type listening struct {
	s      *Store
	notify func(lock.Notice)

	mu      sync.Mutex // guards the fields below, and those of who embeds it
	hearing set
	count   int         // of hearing
	heard   bool        // NoticeListening was told, and NoticeDeaf was not since
	news    []lock.What // of that, to be told
	telling bool        // somebody tells them
	stopped bool
}

// hears takes note of whether a member is heard, and tells what changed by that. Members speak at the same time, and
// what is told last is what is believed: so one of them tells all, in the order in which it happened.
func (l *listening) hears(i int, hears bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if what := l.hearsLocked(i, hears); what != 0 {
		l.news = append(l.news, what)
	}
	if l.telling {
		return
	}
	l.telling = true
	for len(l.news) > 0 {
		what := l.news[0]
		l.news = l.news[1:]
		l.mu.Unlock()
		l.tell(lock.Notice{What: what})
		l.mu.Lock()
	}
	l.telling = false
}

// hearsLocked returns what is to be told, 0 for nothing.
func (l *listening) hearsLocked(i int, hears bool) lock.What {
	if l.hearing.has(i) != hears {
		if hears {
			l.hearing.add(i)
			l.count++
		} else {
			l.hearing.remove(i)
			l.count--
		}
	}
	switch enough := l.count >= l.s.quorum; {
	case enough && !l.heard:
		l.heard = true
		return lock.NoticeListening
	case !enough && l.heard:
		l.heard = false
		return lock.NoticeDeaf
	}
	return 0
}

// tell passes something on, unless nobody listens any more. mu is not held.
func (l *listening) tell(n lock.Notice) {
	l.mu.Lock()
	stopped := l.stopped
	l.mu.Unlock()
	if !stopped && n.What != 0 {
		l.notify(n)
	}
}

// stop ends it.
func (l *listening) stop(stops []func()) func() {
	return all(append(stops, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stopped = true
	}))
}

// Listen implements lock.Store. A release is told when a majority of the members told of it, or a little later if fewer
// did and nobody has a majority of the name.
func (s *Store) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	l := &listener{listening: listening{s: s, notify: notify}, name: name, kind: kind, told: make([]int, len(s.members))}
	stops := make([]func(), 0, len(s.members)+1)
	for i, m := range s.members {
		stops = append(stops, m.Listen(name, kind, func(n lock.Notice) { l.hear(i, n) }))
	}
	return l.stop(stops)
}

// listener counts what each member told of a name.
type listener struct {
	listening
	name   string
	kind   lock.Kind
	told   []int // releases that each member told of
	passed int   // releases that were passed on
	timer  bool  // a check is to come
}

func (l *listener) hear(i int, n lock.Notice) {
	switch n.What {
	case lock.NoticeListening, lock.NoticeDeaf:
		l.mu.Lock()
		l.told[i] = max(l.told[i], l.passed) // what it missed is over
		l.mu.Unlock()
		l.hears(i, n.What == lock.NoticeListening)
	case lock.NoticeReleased:
		if l.released(i) {
			l.tell(n)
		}
	default:
		l.tell(n)
	}
}

// released takes note that a member told of a release, and says whether it is to be passed on. What a member tells
// that does not vote makes nobody's majority.
func (l *listener) released(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[i]++
	n := 0
	for i, told := range l.told {
		if told > l.passed && !l.s.quarantined(l.s.members[i]) {
			n++
		}
	}
	if n >= l.s.quorum {
		l.passed++
		return true
	}
	if n > 0 && !l.timer && !l.stopped {
		l.timer = true
		time.AfterFunc(l.s.cfg.fewPause+rand.N(l.s.cfg.fewPause), l.check) //nolint:gosec // it need not be a secret
	}
	return false
}

// check looks whether a release that few told of is worth another attempt. An attempt that failed gives back what it
// has from less than a majority: if that woke those who wait, their attempts would fail as well, and so on.
func (l *listener) check() {
	l.mu.Lock()
	l.timer = false
	most := l.passed
	for _, told := range l.told {
		most = max(most, told)
	}
	open := most > l.passed && !l.stopped
	l.passed = most
	for i := range l.told {
		l.told[i] = most
	}
	l.mu.Unlock()
	if !open {
		return
	}
	l.s.run(context.Background(), func(ctx context.Context) {
		if free, err := survey(ctx, l.s, l.freeAt, l.enough); err != nil || free {
			l.tell(lock.Notice{What: lock.NoticeReleased})
		}
	})
}

// freeAt says whether a member that votes could give the name to somebody.
func (l *listener) freeAt(ctx context.Context, m *member) (bool, error) {
	st, err := m.Look(ctx, l.name)
	return (!st.Held || l.kind == lock.Read && st.Kind == lock.Read) && !l.s.quarantined(m), err
}

// enough says whether a majority could. As long as it cannot, whoever gives the rest back will tell, or its lease ends.
func (l *listener) enough(said []bool) (free, agreed bool) {
	n := 0
	for _, free := range said {
		if free {
			n++
		}
	}
	return n >= l.s.quorum, n >= l.s.quorum || len(said)-n > len(l.s.members)-l.s.quorum
}

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

// tellers are the members that told of an end, and when the first did.
type tellers struct {
	at   time.Time
	told set
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
	case lock.NoticeEnded:
		tell, sure := w.ended(i, n)
		n.Unsure = !sure
		switch {
		case tell && n.Unsure && n.Cause == lock.EndHandedOver:
			time.AfterFunc(lagTime, func() { w.handedByFew(n) })
		case tell:
			w.tell(n)
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

// handedByFew tells of a hand-over that was unsure when a member told of it, if it still is. A minority cannot hand a
// name over; but while members are not heard, the first one that tells of a hand-over cannot know.
func (w *watcher) handedByFew(n lock.Notice) {
	w.mu.Lock()
	enough, sure := w.enoughLocked(w.tellersLocked(endOf{n.Fence, n.Hold}, time.Now()).told)
	w.mu.Unlock()
	if enough && !sure {
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
	t := w.tellersLocked(endOf{n.Fence, n.Hold}, time.Now())
	enoughBefore, sureBefore := w.enoughLocked(t.told)
	t.told.add(i)
	enough, sure := w.enoughLocked(t.told)
	return enough && !enoughBefore || sure && !sureBefore, sure
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

// ListenForced implements lock.Store. Each member's word is passed on: the caller verifies, and a majority has done it
// when the last one tells. An interruption is told when so many members were interrupted that a forced release could
// have been missed.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	f := &forcedListener{s: s, notify: notify}
	stops := make([]func(), 0, len(s.members))
	for i, m := range s.members {
		stops = append(stops, m.ListenForced(func(name string) { f.hear(i, name) }))
	}
	return all(stops)
}

type forcedListener struct {
	s      *Store
	notify func(string)

	mu          sync.Mutex // guards the field below
	interrupted set        // since the last interruption that was told
}

func (f *forcedListener) hear(i int, name string) {
	if name != "" {
		f.s.forced.note(name, 2*f.s.cfg.CallTimeout)
	}
	if name != "" || f.missed(i) {
		f.notify(name)
	}
}

func (f *forcedListener) missed(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.interrupted.add(i)
	n := 0
	for i := range f.s.members {
		if f.interrupted.has(i) {
			n++
		}
	}
	if n < f.s.quorum {
		return false
	}
	f.interrupted = 0
	return true
}
