// Package session is a client's relation with a broker: who it is, when it was last heard, which of its requests were
// seen, what it is told, what it holds and waits for, and what that may cost.
//
// # What it promises
//
// What a session is told comes in its order, and is never dropped; a client that does not read loses its session. The
// answer to a heartbeat holds for all that was told before it. From the first step of its end on, nothing is listed as
// a session's own. What is counted for it counts no more when it has ended.
//
// # What it does not promise
//
// It knows nothing of names, of queues and of the store. It takes nothing from anybody: at its end it says what is
// left, and the broker does the rest.
//
// # States
//
// A session whose stream broke is detached: it goes on without a client, and ends unless that comes back in time, here
// or elsewhere. A session is open until Retire, which says why it ends. It is over when all operations that were under
// way have ended too; then Done is closed. No session becomes open again.
package session
