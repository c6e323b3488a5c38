package lock

import "time"

// State is what the Store knows of a name.
type State struct {
	Name string
	// Kind is Exclusive for Fair, too, unless somebody queues: the Store does not tell them apart.
	Kind Kind
	// Held says whether anybody holds the name; the fields below are zero if not, but for Fence and what is said of a
	// semaphore and a queue.
	Held bool
	// Owner is one of the owners, the writer if there is one. Permits have no owner that could be read.
	Owner Owner
	// Count is how often that owner holds the name: owners of other programs may hold it several times.
	Count uint32
	// Holders is how many hold the name; for a semaphore, how many permits are out. A writer that reads as well is one,
	// although it has two owners.
	Holders uint32
	// TTL is the remaining time, or NoTTL. With several holders it is the longest.
	TTL time.Duration
	// Fence is the last one given out, 0 if none is known.
	Fence Fence
	// Limit is how many permits a semaphore has.
	Limit uint32
	// Queued is how many fair waiters there are, wherever they wait.
	Queued uint32
	// Members is on how many of several stores it is held; 0 if there is one only.
	Members uint32
}

// Holder is one who holds a name, as the Store knows it.
type Holder struct {
	Owner Owner
	// Kind is Exclusive for Fair, too: the Store does not tell them apart.
	Kind Kind
	// Count is as in State.
	Count uint32
	// TTL is the remaining time of the owner's lease, or NoTTL.
	TTL time.Duration
}

// Seen is what there is to be seen of the holds of a name.
type Seen struct {
	// Fence is the last one given out, 0 if none is known.
	Fence Fence
	// Tried is a greater one that may have been given to nobody, by an attempt that failed. Else it is 0.
	Tried Fence
	Holds []SeenHold
	// Many says that there are more than MaxSeen holds, and none is in Holds.
	Many bool
	// Tracked says that the next change is told to who watches: NoticeChanged or NoticeTouched.
	Tracked bool
}

// MaxSeen is how many holds a Seen has at most.
const MaxSeen = 200

// SeenHold is a hold of a name. Each permit of another program is one.
type SeenHold struct {
	// ID tells the holds of a name apart.
	ID string
	// Fence is 0 if it is not known.
	Fence Fence
	// TTL is the remaining time, or NoTTL.
	TTL time.Duration
	// Foreign: another program holds it, which may release it without a word.
	Foreign bool
	// Permit: it has permits. Their fence is not known, and the ID of lockd's own is that of PermitsOf.
	Permit bool
	// Unsure: it may be part of an attempt that fails, unless it was seen before: then it may have ended, or last, and its
	// fence is the one that was seen.
	Unsure bool
	// Few: only a minority of several stores has it. It is about to end, or to be put back, or part of an attempt that
	// fails.
	Few bool
	// Rising: if it has just begun its fence may be raised before it is told.
	Rising bool
}
