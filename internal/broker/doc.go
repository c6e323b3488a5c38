// Package broker decides who holds a lock, for how long, and who is next.
//
// # What it promises
//
// At most one unexpired lease per exclusive, fair or writing name, as judged by the Store; of a name that is read, no
// writer beside its readers but the holder of one of them; of a semaphore, no more permits than its limit. Every grant of
// a name carries a fence greater than that of any earlier grant of the name. A session hears of the loss of a lease no
// later than the end of the validity it was last told. Waiters of one name on one replica are granted in the order of
// their arrival, fair ones in that over all replicas. A request for several names takes all or none, and holds none while
// it waits.
//
// # What it does not promise
//
// A holder may be paused past its lease and act late. Only a resource that rejects old fences is safe from that;
// the broker alone is not. Between replicas the waiters of a name compete unless it is fair. A request for several names
// may be overtaken by those for one of them.
//
// # How a request passes
//
// A Session takes the request and answers it, in time, through its Outbox. An Acquire becomes a waiter in the queue
// of its name (acquire.go, queue.go); one for several names in that of the name in the way (several.go). While nobody here
// holds the name for itself alone, the Store is asked (attempt.go): on behalf of the head, and side by side for requests
// that were not refused yet and are tries or want a shared hold. Only for a head that has to wait there is a goroutine, the
// queue's driver (driver.go). It also keeps the places of fair waiters in the Store (places.go), and
// hears of releases (sleeper.go). A granted waiter becomes a Lease and is given to the Keeper, which renews it and ends it when
// it is lost (lease.go). A named holder that writes may read beside that (readwrite.go). A Release takes the lease back,
// or passes it to the next waiter in the same Store call (release.go, handover.go). What may have been taken for nobody
// is given back in the background (undo.go), but for a unary caller that may repeat its request (own.go). A bounded
// request is answered in time, whatever the Store does (bound.go).
//
// # What is undone
//
// Whatever may be in the Store for nobody is given back. Each case has one place:
//
//	what was taken                                    given back by
//	an attempt granted a request that was answered    undoAttempt: handed to the next waiter, or freed
//	a hand-over reached a waiter that had left        undoGrant: handed to the one after it, or freed
//	an attempt was not answered, twice                undoLater, again and again until it must have run out
//	a release was not answered, three times           undoLeaseLocked, the same
//	a lost lease may last longer than was told        undoLostLocked, once its validity has ended by a margin
//	a waiter with a place in the Store left           leavePlaceLocked
//	a unary caller that may repeat its request left   nothing: leaveToTwin leaves it to the repetition (own.go)
//	a session ended that wants its locks released     releaseAtEnd
//
// # Time
//
// The Store decides when a lease ends. The broker trusts a lease until the moment before its last successful Store
// call was sent, plus its TTL, less a margin for clock drift. Late replies thus shorten trust, never stretch it.
//
// # State
//
// Broker.mu guards all queues, sessions and leases. Nothing slow happens under it: Store calls are only started, and
// answers are appended to outboxes.
package broker
