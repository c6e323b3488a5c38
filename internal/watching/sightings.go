package watching

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// longestPause is the time between two looks at a name of which nothing is heard, deafPause that while nothing can
	// be heard, and failurePause that after a look that failed.
	longestPause = 10 * time.Second
	deafPause    = longestPause / 10
	failurePause = deafPause / 2
	// lookSpacing is how long changes are gathered before a look: one hold begins and ends with several, and each of
	// several stores tells of each.
	lookSpacing = 5 * time.Millisecond
	// repeatTime is for how long after an end it may be told again, by a message of a store that was late.
	repeatTime = 2 * time.Minute
	// touchSpacing is the longest time from one look to the next if the name was only touched.
	touchSpacing = time.Second
)

// sightings is what a watch knows of the holds of its name. The watch's mu guards all fields.
type sightings struct {
	looks   uint64              // that were begun
	seen    map[string]seenHold // by ID, at the last look; nil before the first
	last    lock.Fence          // the greatest that is known
	told    recent[key, uint64] // the ends that were told, and how many looks were begun by then
	unsure  recent[lock.Fence, lock.EndCause]
	spacing time.Duration // from the last look to the next if the name is only touched
	strays  []stray       // ends that were told of holds that were not seen with this fence
	deaf    bool          // messages are not heard
	assumed bool          // before the first look: there may have been a hold, and it may have ended
	since   happened
}

// happened is what is known, besides ends that were told, since the last look was begun.
type happened struct {
	blind    bool // messages were not heard for a while
	flushed  bool // the store may have lost its data
	forced   bool // a hold ended by force, nobody says which
	alone    bool // that is sure, so it is told also if no hold is seen to be gone
	nameless int  // messages of other programs
}

// key tells the ends of a name apart. That of a hold of another program has none.
type key struct {
	fence lock.Fence
	id    string
}

func (e End) key() key {
	if e.Hold != "" {
		return key{id: e.Hold}
	}
	return key{fence: e.Fence}
}

// seenHold is a hold.
type seenHold struct {
	id      string
	fence   lock.Fence
	until   time.Time // zero if it has no end
	foreign bool
	permit  bool
	unseen  bool // it was over before it was seen; only its fence is known
	rising  bool // its fence may be raised before it is granted
	unsure  bool // when it was seen last, no majority said that it is there
}

func (h seenHold) end(c lock.EndCause) End {
	if h.permit {
		return End{Cause: c, Hold: h.id}
	}
	return End{Cause: c, Fence: h.fence}
}

// stray is an end that was told of a hold that was not seen with this fence, 0 if it is not known, and how many looks
// were begun by then.
type stray struct {
	fence lock.Fence
	looks uint64
}

// maxStrays bounds those that may be of a hold whose fence is being raised: there is one at a time.
const maxStrays = 16

// endedLocked takes an end that a message tells of, or that this replica brought about. It is told unless it was told
// before, or a look has to show it.
func (w *watch) endedLocked(e End, unsure bool) {
	k := e.key()
	switch {
	case k == key{}:
		w.since.forced = w.since.forced || e.Cause == lock.EndForced
		w.since.alone = w.since.alone || e.Cause == lock.EndForced && !unsure
		if e.Cause != lock.EndForced && !unsure {
			w.since.nameless++
		}
	case w.told.has(k):
	case unsure:
		w.unsure.put(e.Fence, e.Cause)
	default:
		if !w.seesLocked(func(h seenHold) bool { return h.end(0).key() == k }) {
			w.strays = append(w.strays, stray{e.Fence, w.looks})
			w.strays = w.strays[max(0, len(w.strays)-maxStrays):]
		}
		w.sayEndLocked(e)
	}
}

// seesLocked says whether the last look saw such a hold.
func (w *watch) seesLocked(such func(h seenHold) bool) bool {
	for _, h := range w.seen {
		if such(h) {
			return true
		}
	}
	return false
}

// sayEndLocked tells an end, and remembers that.
func (w *watch) sayEndLocked(e End) {
	if k := e.key(); k != (key{}) {
		w.told.put(k, w.looks)
	}
	w.last = max(w.last, e.Fence)
	w.tellLocked(e)
}

// look is what was known when a look began.
type look struct {
	happened

	at     time.Time
	number uint64
	last   lock.Fence
}

// lost says whether the fences begin anew.
func (l look) lost(st lock.Seen) bool { return max(st.Fence, st.Tried) < l.last }

func (w *watch) beginLook() look {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	before := look{happened: w.since, at: time.Now(), number: w.looks, last: w.last}
	before.blind = before.blind || w.deaf
	w.since = happened{}
	return before
}

// unseen takes back a look that failed. If it is the first one the name counts as held: whoever watches it would rather
// hear of an unlock that may not have been than miss one.
func (w *watch) unseen(before look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.since
	s.blind, s.flushed = s.blind || before.blind, s.flushed || before.flushed
	s.forced, s.alone = s.forced || before.forced, s.alone || before.alone
	s.nameless += before.nameless
	w.assumed = w.assumed || !w.looked
	w.answerLocked()
}

// saw compares what is seen with what was seen before, tells what ended meanwhile, and says when to look again.
func (w *watch) saw(before look, st lock.Seen) (pause, spacing time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.heldLocked(before, st)
	if w.seen == nil && w.assumed && len(held) == 0 && !st.Many {
		w.tellLocked(End{Cause: lock.EndUnknown})
	}
	w.missLocked(before, st, held)
	w.spacing = w.spacingLocked(st, held)
	w.seen, w.last = held, max(w.last, st.Fence)
	if before.lost(st) {
		w.last = st.Fence
	}
	if !w.seesLocked(func(h seenHold) bool { return h.unsure }) {
		w.strays = slices.DeleteFunc(w.strays, func(s stray) bool { return s.looks < before.number })
	}
	w.answerLocked()
	w.told.forgetBefore(before.at.Add(-repeatTime)) // of very many names it would fill the memory
	return w.pauseLocked(st), w.spacing
}

// spacingLocked is the time to the next look if the name is only touched. It doubles as long as looks show nothing but
// renewals of lockd: their ends, and new holds, are told without that.
func (w *watch) spacingLocked(st lock.Seen, held map[string]seenHold) time.Duration {
	renewed := func(old, now seenHold) bool { return old.fence == now.fence && !now.foreign && !now.unsure }
	if st.Many || len(held) > 0 && maps.EqualFunc(w.seen, held, renewed) {
		return min(2*max(w.spacing, lookSpacing), touchSpacing)
	}
	return lookSpacing
}

// heldLocked are the holds that are seen, but for those whose end was told while that was looked at.
func (w *watch) heldLocked(before look, st lock.Seen) map[string]seenHold {
	held := make(map[string]seenHold, len(st.Holds))
	for _, h := range st.Holds {
		old, there := w.seen[h.ID]
		if h.Unsure && !there && w.seen != nil || h.Few && (!there || w.explainedLocked(before, st, old)) {
			continue
		}
		if (h.Unsure || h.Few) && there && old.fence != 0 { // nobody knows of another one that it was told
			h.Fence = old.fence
		}
		s := seenHold{
			id: h.ID, fence: h.Fence, foreign: h.Foreign, permit: h.Permit, rising: h.Rising,
			unsure: h.Unsure || h.Few,
		}
		k := s.end(0).key()
		if looks, told := w.told.get(k); told {
			if looks >= before.number {
				continue
			}
			w.told.forget(k) // it stands, or its owner took some again
		}
		if h.TTL != lock.NoTTL {
			s.until = before.at.Add(h.TTL)
		}
		held[h.ID] = s
	}
	return held
}

// goneLocked are the holds that were seen and are not any more, and whose end was not told, the first first. Permits of
// another program that were to end at the same time count as one.
func (w *watch) goneLocked(held map[string]seenHold, st lock.Seen) (gone []seenHold) {
	if w.seen == nil || st.Many { // which of them is not known
		return nil
	}
	permits := make(map[time.Time]bool)
	for id, h := range w.seen {
		now, there := held[id]
		if there && (h.rising || now.fence == h.fence) || w.told.has(h.end(0).key()) {
			continue
		}
		if h.permit && h.foreign {
			end := h.until.Round(time.Millisecond)
			if permits[end] {
				continue
			}
			permits[end] = true
		}
		gone = append(gone, h)
	}
	told := slices.ContainsFunc(w.strays, func(s stray) bool { return s.fence == 0 })
	if len(held) == 0 && st.Fence > w.last && !told && !w.unsure.has(st.Fence) {
		gone = append(gone, seenHold{fence: st.Fence, unseen: true})
	}
	slices.SortFunc(gone, func(a, b seenHold) int {
		return cmp.Or(cmp.Compare(a.fence, b.fence), cmp.Compare(a.id, b.id))
	})
	return gone
}

// missLocked tells of holds that are gone. Messages of other programs, the first first, are of those that were theirs.
// One that is left may be of a hold that is still seen, if it came during this look: the next look shows that.
func (w *watch) missLocked(before look, st lock.Seen, held map[string]seenHold) {
	early, late := before.nameless, w.since.nameless
	blamed, several := false, false
	for _, h := range w.goneLocked(held, st) {
		cause := w.causeLocked(before, st, h)
		if h.foreign || h.unseen {
			switch {
			case early > 0:
				early, cause = early-1, lock.EndReleased
			case late > 0:
				late, cause = late-1, lock.EndReleased
			}
		}
		blamed = blamed || cause == lock.EndForced
		several = several || cause == lock.EndForced && (h.permit || h.unseen)
		if h.unseen && before.alone { // of permits, that message names no fence
			h.fence = 0
		}
		if !w.raisedLocked(h) {
			w.sayEndLocked(h.end(cause))
		}
	}
	stand := 0
	for _, h := range held {
		if h.foreign {
			stand++
		}
	}
	w.since.nameless = min(late, stand)
	for range early + late - w.since.nameless {
		w.tellLocked(End{Cause: lock.EndReleased})
	}
	if blamed {
		w.since.forced, w.since.alone = false, false
	}
	if before.alone && (!blamed || several) { // one message is of all permits, also of those that no look saw
		w.tellLocked(End{Cause: lock.EndForced})
	}
}

// causeLocked is why a hold is not to be seen any more, of which no message was heard.
func (w *watch) causeLocked(before look, st lock.Seen, h seenHold) lock.EndCause {
	told, hinted := w.unsure.get(h.fence)
	switch {
	case hinted && h.fence != 0:
		return told
	case !h.unseen && (before.flushed || w.since.flushed || before.lost(st)):
		return lock.EndDataLoss
	case before.forced || w.since.forced:
		return lock.EndForced
	case before.blind || w.since.blind:
		return lock.EndUnknown
	case h.unseen, !h.until.IsZero() && !time.Now().Before(h.until):
		return lock.EndExpired
	case h.unsure:
		return lock.EndUnknown
	case h.foreign:
		return lock.EndReleased
	}
	return lock.EndForced // somebody deleted its key
}

// explainedLocked says whether it is known why a majority has not got a hold any more. Else whoever ended it is about
// to tell of it.
func (w *watch) explainedLocked(before look, st lock.Seen, h seenHold) bool {
	return w.causeLocked(before, st, h) == lock.EndDataLoss || w.unsure.has(h.fence)
}

// raisedLocked says whether the end of a hold was told with the fence that it had at last.
func (w *watch) raisedLocked(h seenHold) bool {
	i := slices.IndexFunc(w.strays, func(s stray) bool { return h.rising && h.fence != 0 && s.fence > h.fence })
	if i >= 0 {
		w.strays = slices.Delete(w.strays, i, i+1)
	}
	return i >= 0
}

// pauseLocked is the time to the next look if nothing is heard before.
func (w *watch) pauseLocked(st lock.Seen) time.Duration {
	if w.since.nameless > 0 {
		return 0
	}
	pause := longestPause
	if !st.Tracked || w.deaf {
		pause = deafPause
	}
	pause -= rand.N(pause / 4) // not all names at once
	for _, h := range st.Holds {
		if h.TTL != lock.NoTTL {
			pause = min(pause, h.TTL+time.Millisecond)
		}
	}
	return max(pause, time.Millisecond)
}
