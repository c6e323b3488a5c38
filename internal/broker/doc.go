// Package broker decides who holds a lock, for how long, and who is next.
//
// # What it promises
//
// As judged by the Store, an exclusive or fair name has at most one unexpired lease; a name has at most one writer, and
// beside it no reader but the writer itself; no permit of a semaphore is granted beyond its limit. Every grant of a
// name carries a fence greater than that of any earlier grant of the name. A session hears of the loss of a lease no
// later than the end of the validity it was last told. Waiters of one name on one replica are granted in the order of
// their arrival; fair ones in the order of their arrival at all replicas. A request for several names takes all or
// none, and holds none while it waits.
//
// # What it does not promise
//
// A holder may be paused past its lease and act late. Only a resource that rejects old fences is safe from that;
// the broker alone is not. Between replicas the waiters of a name compete unless it is fair. A request for several
// names may be overtaken by those for one of them.
//
// # How a request passes
//
// A Session takes the request. It embeds session.Session, which has what concerns no name: how the client is heard and
// told, what it may have, and how the session ends or goes on elsewhere.
//
//   - Acquire (acquire.go) makes the request a waiter (waiter.go) in the queue of its name (queue.go). A request for
//     several names stands in the queue of the name that is in the way (several.go).
//   - Package arbiter decides for whom of a queue the store is asked next, and when. This package does so.
//   - An attempt (attempt.go) asks the store. Most attempts need no goroutine. A queue in which somebody has to wait
//     has a driver (driver.go). The driver sleeps until something is heard (sleeper.go), and keeps the places of fair
//     waiters.
//   - A granted waiter becomes a Lease (lease.go). The Keeper (keeper.go) renews the lease, and ends it when it is
//     lost. When the session ends, the lease runs out or is released (held.go).
//   - A named holder that asks again for what it holds, or asks to read what it writes, waits in no queue (nest.go).
//   - Release (release.go) releases the lease, or hands the name to the next waiter in the same store call
//     (handoff.go).
//   - A bounded request is answered in time, whatever the Store does (bound.go).
//   - A unary caller may repeat its request, so what it may have is not undone (once.go).
//   - A hold that is known here keeps others from asking the Store, until its name is freed by force (doubt.go).
//
// # What is released, and what is undone
//
// An attempt of unknown outcome leaves nothing in the Store, and a release that was asked for is carried out: the Store
// settles calls whose outcome it could not tell (package settle). So each of these is one call:
//
//	what was taken                                    released or undone by
//	an attempt granted a request that was answered    passOnLocked: to the next waiter, or freed; one
//	                                                  that may go on elsewhere has its place again
//	a handoff reached a waiter that had left          passOnLocked; undoDoubtfulLocked if nobody knows whether it did
//	a waiter left that was granted something too late undoDoubtfulLocked (attempt.go)
//	a lost lease may last longer than was told        releaseLostLocked, once its validity has ended by a margin
//	a waiter with a place in the Store left           leavePlaceLocked (leaving.go)
//	a waiter left that succeeded to what one had      undoSucceededLocked (instead.go)
//	a unary caller that may repeat its request left   nothing: it is left to the repetition (once.go)
//	a session ended that wants its locks released     Lease.Release
//
// # Time
//
// The Store decides when a lease ends. The broker trusts a lease until the moment before its last successful Store
// call was sent, plus its TTL, less a margin for clock drift. Late replies thus shorten trust, never stretch it.
//
// This end of the validity is computed by trusted, for grants, renewals and extensions, and kept in Lease.until. The
// Keeper calls Lose at that time.
//
// # State
//
// The names are divided among shards. The mutex of a shard guards the queues, waiters and leases of its names. What
// sessions have is guarded in package session. Broker.mu guards whether the store is there.
//
// Whoever locks several of them does so in this order:
//
//  1. shards, by their numbers
//  2. those of package session, in the order of its doc
//  3. those that lock no other one of this list: Broker.mu, and those of the Keeper
//
// Nothing slow happens under them: Store calls are only started, and answers are appended to outboxes.
//
// Who calls a method whose name ends in Locked holds the mutexes of the names that the method is about.
package broker
