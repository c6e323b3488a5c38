// Package client is the Go SDK of lockd, the lock broker.
//
// A Client keeps one session with a server, on one stream at a time. All its locks share that stream:
//
//	c, err := client.Dial("lockd.example.com:7420", client.WithName("billing"))
//	...
//	defer c.Close()
//
//	l, err := c.Lock(ctx, "invoice:4711")
//	...
//	defer l.Unlock(ctx)
//	err = write(l.Context(), l.Fence(), invoice)
//
// # What it promises
//
// A Lock knows its deadline, until which it is surely held, also when the server cannot be reached. After the deadline
// Err, Context and Lost say that the Lock is lost. The deadline counts on the monotonic clock from when a message was
// sent, not from when its answer came: a slow network makes it earlier, never later. Err and Context read the clock at
// each call, so a process that was stopped learns of the loss by its first call.
//
// A Lock ends once. After it was lost the name has to be locked again, which gives a greater fence.
//
// A Lock or LockAll call that returns an error leaves nothing behind that outlives a lease: the request is cancelled,
// and a grant that is under way at that moment is released.
//
// # What it does not promise
//
// A program can be stopped after it asked whether it holds the lock, and act late. The monotonic clock may stop while a
// machine sleeps. Only a resource that is given the Fence, and refuses smaller fences than it has seen, is safe from
// both.
//
// # When the stream breaks
//
// The Client goes on with its session in another stream. It tries at once, at another address first if it knows one,
// and then again and again. Locks stay held, with their fences, if that succeeds before their deadlines; a lock that
// the store does not have any more is lost. A session cannot go on if, for example, it was silent for too long or a
// copy of this process took it: it ends, and its locks are lost. When a server drains, the Client keeps the old stream
// until the new one is there.
//
// If the server does not accept the credentials any more (ErrUnauthenticated), because a token is renewed a little
// late, the Client tries again while it holds locks, else for the time of WithAnswerTimeout.
//
// Requests under way, except those of SetLimit, are sent again on the next stream, and carried out once. A Fair request
// keeps its place. If the session ends, Lock asks again in the next session: at the end of the queue, with what is left
// of its wait. TryLock does not: it returns ErrOutcomeUnknown if it may have taken the lock. A grant that comes after
// that is released at once; if the session ends before the grant comes, the name is free when the lease has ended.
//
// # Leases
//
// By default the server renews a lease for as long as it hears this client, which sends a heartbeat every third of the
// session TTL. The option Lease asks for a fixed lease, whose end Extend and Shorten move. MakeFixed and MakeAuto
// change one into the other. The context given to Lock is for the wait only.
//
// # Kinds, and several at once
//
// The option As asks for another Kind than Exclusive; Permits asks for a Semaphore. LockAll takes locks of any kinds
// together, all or none. It returns Locks, which end as soon as one of the locks ends.
//
// # Bounds
//
// A call waits 5 s, or the time of WithAnswerTimeout, for an answer that is due: counted from the call, or for Lock
// from the end of the time of Wait. The deadline of its context takes the place of this bound, but not for Watch and
// Lock. Close waits for 2 s at most. After that a call returns ErrOutcomeUnknown, or ErrUnavailable if it changes
// nothing. Lock without Wait waits until its context ends.
//
// All calls but those that take locks may be repeated. After an Unlock with an unknown outcome the Lock has ended in
// any case, and its lease ends by itself, as nobody renews it. Another Unlock waits for the answer again.
//
// # Cost
//
// A Lock has no goroutine and no timer; its channel and its context are made when asked for. Requests that many
// goroutines make at the same time share frames. A Client has two goroutines and three timers for any number of locks.
package client
