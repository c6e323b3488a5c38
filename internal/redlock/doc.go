// Package redlock is a lock.Store that is a majority over other stores: RedLock.
//
// # What it promises
//
// A hold is told when a majority of the members granted it, and ends when a majority has ended it. Two majorities have
// a member in common, and that one excludes: at most one owner has an exclusive name, as long as no more than a
// minority of the members fails, and as long as a member that lost its data waits before it votes again (members.go). A
// slow or dead minority slows nobody: the outcome is told as soon as a majority decided it.
//
// Fences of a name strictly increase over all grants. All members are asked for the same fence; if they disagree, it is
// raised on a majority before it is told (fences.go). A wrong clock costs a second round, never the order.
//
// A name is handed over when a majority did so; else it is freed everywhere (handover.go). For the successor a
// hand-over is an attempt as any other: no fence, and no member, counts for it that would not count for an acquisition.
//
// # What it does not promise
//
// There are no semaphores and no fair locks: three holders of two permits over three members would each have a
// majority, and a common order needs one line. They are refused with lock.ErrKindUnsupported.
//
// A hold that only a minority has, because an attempt failed half-way, is released at once, again in the background if
// a member does not answer, and ends with its TTL at last.
//
// # Time
//
// Members are asked for TTL + TTL/100 + 2 ms: their clocks may run faster. Validity counts from before the members were
// asked; a grant that comes when it is over is not told.
//
// # How a call passes
//
// It goes to all members at once. Their answers are votes of a ballot (ballot.go), which is decided by a majority, or
// when no majority is possible any more. When a majority has said yes or no and that decides nothing, the others have
// Config.NodeTimeout left. Answers that come later are looked at, too: what a member did for an attempt that failed is
// undone (leftovers.go). No call has a goroutine that the members do not need: acquisitions, releases and extensions
// are started.
package redlock
