package watching

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// longestPause and deafPause are the times between two looks at a name of which nothing is heard: while messages
	// are heard, and while they are not.
	longestPause = 10 * time.Second
	deafPause    = time.Second
	// failurePause is the time to the next look after one that failed.
	failurePause = 500 * time.Millisecond
	// lookSpacing is the time between two looks at a name that changes all the time.
	lookSpacing = 5 * time.Millisecond
	// doubtTime is how long the end of a hold that was only seen may still be told by who brought it about. A message
	// of another program takes up to 20 ms, and both must come within 50 ms.
	doubtTime = 30 * time.Millisecond
	// newsTime is that for a hold of lockd. Its message is always sent, and read late on a busy machine.
	newsTime = 300 * time.Millisecond
	// staleTime is how long a sight can be trusted to name the end of a lease while nothing is heard.
	staleTime = 3 * time.Second
	// tardyTime is how long after the end of a hold of another program was told its message may come, on a busy machine.
	// What comes later is of another hold. rememberTardy is how long it may take then to learn what it means.
	tardyTime     = 50 * time.Millisecond
	rememberTardy = 2 * time.Second
	// risingTime is how long a hold over several stores is new.
	risingTime = time.Second
	// maxTold and maxLoose bound what is remembered of ends that were told.
	maxTold  = 4096
	maxLoose = 1024
	// maxStrays bounds those that may be of a hold that is being raised: there is one at a time.
	maxStrays = 16
)

// sightings is what a watch knows of the holds of its name. The watch's mu guards all fields.
//
// The end of a hold comes to be known in up to three ways: this replica ended it, a message tells of it, and it is
// not to be seen any more. Whichever comes first is told, and the others are recognised: by the fence; by the ID, for
// permits; or, if neither is known, because as many ends were told shortly before or after as are seen.
type sightings struct {
	seen   map[string]seenHold // by id, at the last look; nil before the first
	last   lock.Fence          // the greatest that is known
	at     time.Time           // when the last look was begun
	told   recentFences
	failed recentFences // of attempts that nobody had anything by
	gone   recentHolds  // permits whose end was told
	loose  []time.Time  // when ends were told that no hold was found for, nor a fence known
	strays []stray      // ends with a fence that no hold was found for
	tardy  []time.Time  // when ends of holds of other programs were told of which no message was heard, but ought to be
	doubts []doubt
	// What happened since the last look was begun:
	deaf    bool // messages are not heard
	blind   bool // or were not for a while
	flushed bool // the store may have lost its data
	forced  bool // several holds ended by force, nobody says which
	assumed bool // before the first look: there may have been a hold, and it may have ended
}

// seenHold is a hold.
type seenHold struct {
	id      string
	fence   lock.Fence
	until   time.Time // zero if it has no end
	foreign bool
	permit  bool
	unseen  bool      // it was over before it was seen; only its fence is known
	rising  bool      // its fence may be raised while it is new
	unsure  bool      // when it was seen last, some could not say whether it is there
	since   time.Time // when the look was begun that first saw it with this fence
}

// stray is an end that was told of a hold that was not seen with this fence.
type stray struct {
	fence lock.Fence
	at    time.Time
}

// goneHold is a hold whose end was told at a time, because it was not to be seen any more or because of a message.
type goneHold struct {
	at     time.Time
	missed bool
}

// doubt is the end of a hold that will be told with this cause, unless it is heard of until then.
type doubt struct {
	hold  seenHold
	cause lock.EndCause
	due   time.Time
	told  bool // who gave it back told of it
}

// endedLocked tells the end of a hold that somebody brought about, unless it was told before. If it is unsure the hold
// must have been seen.
func (w *watch) endedLocked(c lock.EndCause, f lock.Fence, id string, unsure bool) {
	switch {
	case f == 0 && id == "" && c == lock.EndForced:
		w.forced = w.forced || len(w.seen) > 0 || !w.blameLocked() // the next look shows whose
		return
	case f != 0 && w.told.has(f), id != "" && w.gone.get(id).missed:
		return
	case unsure && !w.knownLocked(id, f):
		w.failed.add(f)
		return
	}
	known := w.forgetLocked(id, f)
	if id != "" {
		w.gone.add(id, goneHold{at: time.Now()})
	}
	if f != 0 {
		w.told.add(f)
		w.last = max(w.last, f)
	}
	switch {
	case known:
	case f != 0:
		w.strays = append(w.strays, stray{f, time.Now()})
		w.strays = w.strays[max(0, len(w.strays)-maxStrays):]
	default:
		w.loose = append(w.loose, time.Now())
		w.loose = w.loose[max(0, len(w.loose)-maxLoose):]
	}
	w.tellLocked(c, f)
}

// tardyLocked says whether a message is that of an end that was told already, because the hold was not to be seen any
// more. Such a message came before that, or hardly later.
func (w *watch) tardyLocked(n lock.Notice) bool {
	if n.Cause != lock.EndReleased || n.Fence != 0 || n.Hold != "" {
		return false
	}
	came := n.Came
	if came.IsZero() {
		came = time.Now()
	}
	w.tardy = slices.DeleteFunc(w.tardy, func(told time.Time) bool { return time.Since(told) > rememberTardy })
	i := slices.IndexFunc(w.tardy, func(told time.Time) bool { return came.Before(told.Add(tardyTime)) })
	if i < 0 {
		return false
	}
	w.tardy = slices.Delete(w.tardy, i, i+1)
	return true
}

// outlivedLocked says whether a hold was seen by a look that was begun after some told of its end, which is unsure:
// they were wrong.
func (w *watch) outlivedLocked(n lock.Notice) bool {
	if !n.Unsure || n.Came.IsZero() || !n.Came.Before(w.at) {
		return false
	}
	for _, h := range w.seen {
		if h.is(n.Hold, n.Fence) {
			return true
		}
	}
	return false
}

// patience is how long its end is kept in doubt.
func (h seenHold) patience() time.Duration {
	if h.foreign {
		return doubtTime
	}
	return newsTime
}

// is says whether a hold has this ID or this fence.
func (h seenHold) is(id string, f lock.Fence) bool {
	return id != "" && h.id == id || f != 0 && h.fence == f
}

// knownLocked says whether a hold with this ID or this fence was seen.
func (w *watch) knownLocked(id string, f lock.Fence) bool {
	for _, h := range w.seen {
		if h.is(id, f) {
			return true
		}
	}
	return slices.ContainsFunc(w.doubts, func(d doubt) bool { return d.hold.is(id, f) })
}

// forgetLocked is knownLocked, and forgets it. It does not count that such a fence was seen alone.
func (w *watch) forgetLocked(id string, f lock.Fence) (known bool) {
	is := func(h seenHold) bool {
		if !h.is(id, f) {
			return false
		}
		if h.rising { // a look that is under way may see it with an earlier fence
			w.gone.add(h.id, goneHold{at: time.Now()})
		}
		known = known || !h.unseen
		return true
	}
	maps.DeleteFunc(w.seen, func(_ string, h seenHold) bool { return is(h) })
	w.doubts = slices.DeleteFunc(w.doubts, func(d doubt) bool { return is(d.hold) })
	return known
}

// blameLocked says whether holds are in doubt that may have been those that were ended by force. That is their cause
// then.
func (w *watch) blameLocked() (found bool) {
	for i, d := range w.doubts {
		if d.hold.foreign && (d.cause == lock.EndReleased || d.cause == lock.EndUnknown) {
			w.doubts[i].cause, found = lock.EndForced, true
		}
	}
	return found
}

// deafLocked takes note that messages are not heard. Those of the ends in doubt may be lost.
func (w *watch) deafLocked() {
	w.deaf, w.blind = true, true
	for i, d := range w.doubts {
		if d.cause == lock.EndForced && !d.hold.foreign {
			w.doubts[i].cause = lock.EndUnknown
		}
	}
}

// flushedLocked takes note that the store lost its data. That is why holds are gone of which nobody told anything.
func (w *watch) flushedLocked() {
	w.flushed = true
	for i, d := range w.doubts {
		if d.cause == lock.EndForced || d.cause == lock.EndUnknown {
			w.doubts[i].cause = lock.EndDataLoss
		}
	}
}

// look is what was known when a look began.
type look struct {
	at                     time.Time
	last                   lock.Fence
	blind, flushed, forced bool
}

// lost says whether the fences begin anew.
func (l look) lost(st lock.Sight) bool { return max(st.Fence, st.Tried) < l.last }

func (w *watch) beginLook() look {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := look{at: time.Now(), last: w.last, blind: w.blind || w.deaf, flushed: w.flushed, forced: w.forced}
	w.blind, w.flushed, w.forced = false, false, false
	return before
}

// unseen takes note that a name could not be looked at. If that is the first look it counts as held: whoever watches
// it would rather hear of an unlock that may not have been than miss one.
func (w *watch) unseen(before look) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blind, w.flushed, w.forced = w.blind || before.blind, w.flushed || before.flushed, w.forced || before.forced
	w.assumed = w.assumed || !w.looked
	w.answerLocked()
}

// saw compares what is seen with what was seen before, tells what ended meanwhile, and says when to look again.
func (w *watch) saw(before look, st lock.Sight) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	held := w.heldLocked(before, st)
	if w.seen == nil {
		if w.assumed && len(held) == 0 && !st.Many {
			w.tellLocked(lock.EndUnknown, 0)
		}
	} else {
		w.missLocked(before, st, w.missingLocked(held, st), now)
	}
	w.doubts = slices.DeleteFunc(w.doubts, func(d doubt) bool { // it was lost for a moment, and was put back
		return d.hold.fence != 0 && held[d.hold.id].fence == d.hold.fence
	})
	w.seen, w.at = held, before.at
	w.last = max(w.last, st.Fence)
	if before.lost(st) {
		w.last = st.Fence
	}
	w.answerLocked()
	w.settleLocked(now)
	return w.pauseLocked(st, now)
}

// heldLocked are the holds that are seen, but for those whose end was told while that was looked at.
func (w *watch) heldLocked(before look, st lock.Sight) map[string]seenHold {
	held := make(map[string]seenHold, len(st.Holds))
	for _, h := range st.Holds {
		if h.Fence != 0 && w.told.has(h.Fence) || w.gone.get(h.ID).at.After(before.at) {
			continue
		}
		old, there := w.seen[h.ID]
		if h.Unsure && !there && w.seen != nil {
			continue
		}
		if h.Unsure && there && old.fence != 0 { // nobody knows of another one that it was told
			h.Fence = old.fence
		}
		w.gone.forget(h.ID) // its owner took some again
		s := seenHold{
			id: h.ID, fence: h.Fence, foreign: h.Foreign, permit: h.Permit, rising: h.Rising, unsure: h.Unsure, since: before.at,
		}
		if there && old.fence == h.Fence {
			s.since = old.since
		}
		if h.TTL != lock.NoTTL {
			s.until = before.at.Add(h.TTL)
		}
		held[h.ID] = s
	}
	return held
}

// missingLocked are the holds that were seen and are not any more. Permits of another program that were to end at the
// same time count as one.
func (w *watch) missingLocked(held map[string]seenHold, st lock.Sight) (gone []seenHold) {
	if st.Many { // which of them is not known
		return nil
	}
	permits := make(map[time.Time]bool)
	for id, h := range w.seen {
		_, there := held[id]
		if there || h.fence != 0 && w.told.has(h.fence) {
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
	if len(held) == 0 && st.Fence > w.last && !w.told.has(st.Fence) && !w.failed.has(st.Fence) {
		gone = append(gone, seenHold{fence: st.Fence, unseen: true})
	}
	return gone
}

// missLocked tells of holds that are gone, or keeps them in doubt for a while.
func (w *watch) missLocked(before look, st lock.Sight, gone []seenHold, now time.Time) {
	told := false
	for _, h := range gone {
		cause, sure := w.causeLocked(before, st, h, now)
		switch {
		case sure:
			w.tellGoneLocked(cause, h)
			told = true
		case !h.permit || !h.foreign || cause != lock.EndReleased: // who gives back single permits tells of it
			w.doubts = append(w.doubts, doubt{h, cause, now.Add(h.patience()), tells(h, st)})
		}
	}
	if before.forced && !told && !w.blameLocked() {
		w.tellLocked(lock.EndForced, 0)
	}
}

// tells says whether another program that gave a hold back sent a message: not for a reader that left others behind.
func tells(h seenHold, now lock.Sight) bool {
	return h.foreign && !h.permit && (len(now.Holds) == 0 || !strings.HasPrefix(h.id, lock.Read.String()+" "))
}

// causeLocked is why a hold is not to be seen any more, and whether that is sure.
func (w *watch) causeLocked(before look, st lock.Sight, h seenHold, now time.Time) (c lock.EndCause, sure bool) {
	switch {
	case !h.unseen && (before.flushed || w.flushed || before.lost(st)):
		return lock.EndDataLoss, true
	case before.forced:
		return lock.EndForced, true
	case before.blind && (h.unseen || now.Sub(w.at) > staleTime):
		return lock.EndUnknown, false // its message may be heard yet
	case h.unseen:
		return lock.EndExpired, false
	case !h.until.IsZero() && !now.Before(h.until):
		return lock.EndExpired, h.fence != 0
	case before.blind || h.unsure:
		return lock.EndUnknown, false
	case h.foreign:
		return lock.EndReleased, false
	case w.blind: // since the look was begun
		return lock.EndUnknown, false
	}
	return lock.EndForced, false // somebody deleted its key
}

func (w *watch) tellGoneLocked(c lock.EndCause, h seenHold) {
	if h.fence != 0 {
		w.told.add(h.fence)
	}
	if h.permit {
		w.gone.add(h.id, goneHold{time.Now(), true})
	}
	w.tellLocked(c, h.fence)
}

// settleLocked tells the ends that nobody else told of in time.
func (w *watch) settleLocked(now time.Time) {
	w.doubts = slices.DeleteFunc(w.doubts, func(d doubt) bool {
		if now.Before(d.due) {
			return false
		}
		if !w.told.has(d.hold.fence) && !w.matchLocked(d.hold) {
			w.tellGoneLocked(d.cause, d.hold)
			if d.told && d.cause != lock.EndForced {
				w.tardy = append(w.tardy, now)
				w.tardy = w.tardy[max(0, len(w.tardy)-maxLoose):]
			}
		}
		return true
	})
	if len(w.doubts) == 0 {
		w.loose = slices.DeleteFunc(w.loose, func(at time.Time) bool { return at.Before(w.at) })
	}
}

// matchLocked says whether the end of a hold was told without its fence, or with the one that it had at last.
func (w *watch) matchLocked(h seenHold) bool {
	if h.rising && h.fence != 0 {
		i := slices.IndexFunc(w.strays, func(s stray) bool {
			return s.fence > h.fence && s.at.After(h.since) && s.at.Sub(h.since) < risingTime
		})
		if i >= 0 {
			w.strays = slices.Delete(w.strays, i, i+1)
		}
		return i >= 0
	}
	if !h.foreign && !h.unseen || len(w.loose) == 0 {
		return false
	}
	w.loose = w.loose[1:]
	return true
}

// pauseLocked is the time to the next look if nothing is heard before.
func (w *watch) pauseLocked(st lock.Sight, now time.Time) time.Duration {
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
	for _, d := range w.doubts {
		pause = min(pause, d.due.Sub(now))
	}
	return max(pause, time.Millisecond)
}
