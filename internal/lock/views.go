package lock

import "time"

// State is what the Store knows of a name.
type State struct {
	Name string
	// Kind is Exclusive for Fair, too, unless somebody queues: the Store does not tell them apart.
	Kind Kind
	// Held says whether anybody holds the name. If not, the fields below are zero, except Fence, Limit and Queued.
	Held bool
	// Owner is one of the owners, the writer if there is one. Permits have no owner that could be read.
	Owner Owner
	// Count is how often Owner holds the name: owners of other programs may hold it several times.
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
	// Members is on how many of several stores the name is held; 0 if there is only one store.
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
	// Tried is a greater fence that an attempt may have had which failed, so that nobody was told it. Else it is 0.
	Tried Fence
	Holds []SeenHold
	// Many says that there are more than MaxSeen holds, and none is in Holds.
	Many bool
	// Tracked says that those who watch will be told of the next change, by NoticeChanged or NoticeTouched.
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
	// Permit: the hold is of permits. Its fence is not known. If lockd gave them, ID is that of PermitsOf.
	Permit bool
	// Unsure: it may be part of an attempt that fails. If it was seen before, it may have ended or still last, and its
	// fence is the one that was seen then.
	Unsure bool
	// Few: only a minority of several stores has it. It is about to end, or to be put back, or part of an attempt that
	// fails.
	Few bool
	// Rising: if the hold has just begun, its fence may be raised before the owner is told it.
	Rising bool
}
