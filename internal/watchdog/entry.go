package watchdog

import "math"

// moment is a time, in ns since the watchdog began.
type moment = int64

// never is the time of what is not planned.
const never moment = math.MaxInt64

// entry is what the watchdog knows of a lease. shard.mu guards it.
type entry[L any] struct {
	lease   L
	until   moment // validity, as last read
	renewAt moment // when it is due by itself; never if its group's round comes first
	at      moment // where it is in the timeline: no later than both of these, maybe earlier; never if it is not in it
	group   uint32 // 0 for a lease that is renewed by itself
	index   uint32 // in the group
	cost    uint32 // of its renewal, as of the last Keep
	busy    bool   // a renewal is under way
	again   bool   // renew once more after it
	ready   bool   // in shard.ready, to be renewed as soon as there is room
}

// sort is how a lease is kept. Each has calls of its own.
type sort int

const (
	grouped sort = iota
	alone        // only verified: no lease depends on that, and clients can cause any number
	sorts
)

func (e *entry[L]) sort() sort {
	if e.group == 0 {
		return alone
	}
	return grouped
}

// renews says whether the next thing to do for it is a renewal by itself.
func (e *entry[L]) renews() bool { return !e.busy && !e.ready && e.renewAt < e.until }

// planned is when something is to be done for it: its renewal or, if that is under way or up to its group, the end of
// its validity.
func (e *entry[L]) planned() moment {
	if e.renews() {
		return e.renewAt
	}
	return e.until
}

// entries are numbered from 1 on. The number of a lease that is gone is given to another one.
type entries[L any] struct {
	all    []*entry[L] // by number; the first one is nobody's
	free   []uint32    // numbers
	nobody entry[L]    // is never written
}

func (es *entries[L]) live() int { return max(len(es.all)-1, 0) - len(es.free) }

// at is an entry, or nobody's if there is none with this number any more.
func (es *entries[L]) at(id uint32) *entry[L] {
	if int(id) >= len(es.all) {
		return &es.nobody
	}
	return es.all[id]
}

func (es *entries[L]) add(e entry[L]) (id uint32) {
	if last := len(es.free) - 1; last >= 0 {
		id, es.free = es.free[last], es.free[:last]
		*es.all[id] = e
		return id
	}
	if len(es.all) == 0 {
		es.all = append(es.all, &es.nobody)
	}
	es.all = append(es.all, &e)
	return uint32(len(es.all) - 1) //nolint:gosec // bounded by the locks of all sessions
}

// manyEntries is up to how many entries their memory is kept when none is live.
const manyEntries = 256

func (es *entries[L]) remove(id uint32) {
	*es.at(id) = entry[L]{until: never, renewAt: never, at: never}
	es.free = append(es.free, id)
	if es.live() == 0 && len(es.all) > manyEntries {
		*es = entries[L]{}
	}
}
