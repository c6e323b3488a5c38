// Package redlock is a lock.Store that is a majority over other stores: RedLock.
//
// # What it promises
//
// A hold is told when a majority of the members granted it, and ends when a majority has ended it. Two majorities have
// a member in common, and that member grants a name once: at most one owner has an exclusive name, as long as no more
// than a minority of the members fails, and as long as a member that lost its data waits before it votes again
// (members.go). A slow or dead minority slows nobody: the outcome is told as soon as a majority has decided.
//
// Fences of a name strictly increase over all grants. All members are asked for the same fence; if they disagree, it is
// raised on a majority before it is told (fences.go). A wrong clock costs a second round, never the order.
//
// A name is handed over when a majority of the members handed it over; else it is freed everywhere (handoff.go). For
// the successor a handoff is an attempt: only those fences and members count for it that would count for an
// acquisition.
//
// # What it does not promise
//
// There are no semaphores and no fair locks: three holders of two permits over three members would each have a
// majority, and a common order needs one line. They are refused with lock.ErrKindUnsupported.
//
// That a failed attempt leaves nothing at once. A hold that only a minority has is released as soon as the member
// answers, and ends with its TTL at the latest.
//
// # What members promise
//
// Members are settled stores (package settle). A member carries out what this replica asks it about a name in the order
// in which it was asked. Sooner or later it carries out each release that it was asked for, and releases nothing else.
// So all calls are made at once, and none waits for the answer to another one.
//
// The releases of an attempt that failed name its fences, and a later grant has a greater one. So they do not end a
// hold that the same owner is granted later, even at another replica. For the same reason renewals compare fences.
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
// Config.NodeTimeout left. Answers that come later are handled, too. Acquisitions, releases and extensions use the
// Start methods of the members, so they need no goroutine per member.
package redlock
