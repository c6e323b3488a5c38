// Package client is the Go SDK of lockd, the lock broker.
//
// A Client keeps one session with a server, on one stream at a time that all its locks share:
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
// A Lock knows by itself until when it is surely held, also when it is cut off from the server: from that moment on its
// Err, its Context and Lost say that it is lost. The time counts on the monotonic clock, from when a message was sent
// and not from when its answer came: a slow network shortens it, and never stretches it. Err and Context read the
// clock whenever they are asked, so that a process that was stopped is told of the loss by its first question.
//
// A Lock ends once. After it was lost the name has to be locked again, which gives a greater fence.
//
// A Lock or LockAll call that returns an error leaves nothing behind that outlives a lease: the request is taken back,
// and a grant that was under way in that moment is released.
//
// # What it does not promise
//
// A program can be stopped between asking and acting, and act late. A machine that sleeps may stop the monotonic
// clock. Only a resource that is given the Fence and refuses smaller ones than it has seen is safe from both.
//
// # When the stream breaks
//
// The Client goes on with its session in another stream, at once at another address if it knows one, and tries again
// and again. Locks stay held, with their fences, if that succeeds before their deadlines; what the store does not have
// any more is lost. A session that cannot go on ends, and all its locks are lost: it was silent for too long, or a copy
// of this process took it. When a server drains, the old stream is left once the new one is there.
//
// A server that does not know who this is any more (ErrUnauthenticated), because a token is renewed a little late, is
// asked again while locks are held, and else for the time of WithAnswerTimeout.
//
// What is under way is asked again on the next stream, and done once. A Fair request keeps its place. If the session
// ends, Lock begins anew in the next one, at the end of the queue with what is left of its wait. TryLock does not: when
// it cannot know, it says ErrOutcomeUnknown. A grant that comes after that is released at once; if the session ends
// before it comes, the name is free when the lease has run out.
//
// # Leases
//
// By default the server renews a lease for as long as it hears this client, which beats every third of the session TTL
// in the background. With the option Lease it has a fixed end that Extend and Shorten move. MakeFixed and MakeAuto
// change one into the other. The context given to Lock is for waiting only, and means nothing to a lock that is held.
//
// # Kinds, and several at once
//
// The option As asks for another Kind than Exclusive: Fair, Read, Write, or Semaphore, which Permits asks for, too.
// LockAll takes locks of any kinds together, all or none. It returns Locks, which stand for all of them: they are over
// as soon as one is.
//
// # Bounds
//
// An answer that is due is waited for 5 s, or what WithAnswerTimeout says: from the call on, or for Lock from the end
// of the time of Wait. A context with a deadline is waited for instead, but not by Watch, nor by Lock. Close waits for
// 2 s at most. Then they return ErrOutcomeUnknown, or ErrUnavailable if they only ask. Lock without Wait waits until
// its context ends.
//
// All but Lock and TryLock may be repeated. An Unlock with an unknown outcome leaves a lease that nobody renews, so
// that it ends by itself; the Lock is over in any case. Another Unlock waits for the answer again.
//
// # Cost
//
// A Lock has no goroutine, timer or channel; a channel and a context are made when asked for. Requests of many
// goroutines at a time share frames. A Client has two goroutines and three timers of its own for any number of locks.
package client
