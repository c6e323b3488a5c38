// Package deadlock finds requests that wait for each other in a circle, over the sessions of all replicas.
//
// # What it promises
//
// What is told was a deadlock at one moment: all of these requests waited, and all of these holds were held, by actors
// that did nothing else but wait. It is found within two seconds if all replicas answer. While nobody waits, nobody is
// asked. Questions and answers are bounded.
//
// # What it does not promise
//
// An actor is whom a client says it is: a named holder of a session, or an id that requests name. Requests without any
// are in no deadlock that is found. What a replica that does not answer knows is missing, and so is what is beyond the
// bounds: a deadlock may be missed then, but nothing is reported that is none.
//
// # How it works
//
// Each replica searches every 0.7 s while its own requests wait, unless another one did just now. It asks all replicas
// for the requests that wait, and then who holds the names that these want. Circles in that graph may be deadlocks. So
// it asks the store for the limits of semaphores, and all replicas once more for the same requests and holds. A request
// has an id that is never used again, and a hold has a fence. So what was there both times was there all the time
// between, and all of it was true at once. Only circles in that are told.
//
// What is found is told to all replicas. The one at which the youngest request waits counts it. Of those
// whose session asked to fail, the youngest fails, at its own replica.
package deadlock
