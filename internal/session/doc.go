// Package session is a client's relation with lockd: who it is, when it was last heard, which of its requests were
// seen, what it is told, what it holds and waits for, what that may cost, and how it ends or goes on elsewhere.
//
// # What it promises
//
// A session is told everything in order, and nothing is dropped; a client that does not read loses its session. The
// answer to a heartbeat holds for all that was told before it. From the first step of its end on, a session gets
// nothing more. When it has ended, nothing is counted for it. After the answer to a resume no other replica has it.
//
// # What it does not promise
//
// It knows nothing of names and queues. For what concerns a name it asks the Lease or Waiter of that name. A request
// that is about a name enters package broker; session.Begin, Admit and Ask are what all requests have in common.
//
// # States
//
// A session is one of its Registry from Open or Resume on (registry.go, resume.go). One whose stream broke is detached:
// it goes on without a client, and ends if the client does not come back in time, or resumes it, here or elsewhere. A
// session is open until it is retired, with the cause of its end. From then on it takes nothing, and is told nothing
// but the answers to what was under way at a Goodbye. Then it departs: it leaves all that it has (end.go). It is over
// when all operations that were under way have ended too; then Done is closed. No session becomes open again.
//
// # Where is what
//
//	life.go              signs of life, and silence
//	tell.go, outbox.go   what is told
//	leases.go            what it holds and waits for, and what of that it may
//	earliest.go          until when all of it is valid
//	risk.go              AtRisk and Safe
//	asks.go              questions, which hold nothing
//	record.go, moved.go  the store's record of it, and whether it is somewhere else
//	drain.go             asking it to move
//	work.go              what it has to pay for
//	log.go               the log
//
// # Mutexes
//
// Registry.mu guards which sessions are open, and whether they are to move. Session.mu guards what one session has.
// Whoever locks several does so in this order:
//
//  1. those of names, in package broker
//  2. Registry.mu
//  3. Session.mu
//  4. those that lock no other one of this list: of an outbox, the Keeper, watched names, and the tenants
//
// Who calls a method whose name ends in Locked holds the mutex of its receiver. The methods of Lease and Waiter lock
// the mutex of a name, so no other one is held then.
package session
