package watchdog

import "math"

// moment is a time, in ns since the watchdog began.
type moment = int64

// never is the time of what nobody plans.
const never moment = math.MaxInt64

// entry is what the watchdog knows of a lease. shard.mu guards it.
type entry[L any] struct {
	lease   L
	until   moment // validity, as last read
	renewAt moment // by itself; never if its group's round comes first
	at      moment // when it is looked at: not later than both, maybe earlier; never if it is not in the timeline
	behind  moment // another time at which it is in the timeline, later than at; never if there is none
	group   uint32 // 0 for a lease that is renewed by itself
	index   uint32 // in the group
	free    uint32 // the next one in the list of free entries
	busy    bool   // a renewal is under way
	again   bool   // renew once more after it
	ready   bool   // in shard.ready
}

// renews says whether what is to be done for it next is a renewal of its own.
func (e *entry[L]) renews() bool { return !e.busy && e.renewAt < e.until }

// planned is when something is to be done for it: its renewal or, if that is under way or its group's, the end of its
// validity.
func (e *entry[L]) planned() moment {
	if e.renews() {
		return e.renewAt
	}
	return e.until
}

// plan notes that it is put into the timeline, at an earlier time than it is there.
func (e *entry[L]) plan(at moment) {
	if e.behind == never {
		e.behind = e.at
	}
	e.at = at
}

// met notes that it was taken out of the timeline.
func (e *entry[L]) met() { e.at, e.behind = e.behind, never }

// chunkSize is how many entries are allocated at once.
const chunkSize = 256

// entries are numbered from 1 on. They lie side by side and have one pointer each, which is little work for the garbage
// collector. The number of a lease that is gone is given to another one.
type entries[L any] struct {
	chunks []*[chunkSize]entry[L]
	used   uint32 // so many were ever in use
	free   uint32 // the first one that is not in use any more
	live   int
	nobody entry[L] // is never written
}

// at is an entry, or nobody's if there is none with this number any more.
func (es *entries[L]) at(id uint32) *entry[L] {
	if int(id/chunkSize) >= len(es.chunks) {
		return &es.nobody
	}
	return &es.chunks[id/chunkSize][id%chunkSize]
}

func (es *entries[L]) add(e entry[L]) (id uint32) {
	es.live++
	if id = es.free; id != 0 {
		es.free = es.at(id).free
		e.at, e.behind = es.at(id).at, es.at(id).behind // it is in the timeline already
	} else {
		es.used++
		id = es.used
		if int(id/chunkSize) == len(es.chunks) {
			es.chunks = append(es.chunks, new([chunkSize]entry[L]))
		}
	}
	*es.at(id) = e
	return id
}

// remove says whether it let go of what many once needed: the timeline has nothing that is due any more then.
func (es *entries[L]) remove(id uint32) (fresh bool) {
	gone := es.at(id)
	*gone = entry[L]{until: never, renewAt: never, at: gone.at, behind: gone.behind, free: es.free}
	es.free = id
	es.live--
	if fresh = es.live == 0 && len(es.chunks) > 1; fresh {
		*es = entries[L]{}
	}
	return fresh
}
