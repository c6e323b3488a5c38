// Package arbiter decides who of those that want one name is asked for next, and when.
//
// It does no I/O and reads no clock. Its caller tells it what happens: a request arrives, leaves, or was answered by
// the store; the name is held here, or free; the store sent a notice; time has passed. It says what is to be done: ask
// the store for a request, hand the name over, keep places, park a request at a position, grant or refuse it, or do
// nothing for a while. Its caller has a mutex for each Queue, and does what it says.
//
// # States of a request
//
// A request is fresh until it is refused, or somebody is known to be in the way. Then it waits (Park), until it is
// answered (Leave). In any of these states the store may be being asked for it, from Ask to Ended. What the store gives
// to a request that was answered meanwhile, the caller undoes.
//
// # Who is asked for
//
// While a session of this replica holds the name for itself alone, the store is asked for nobody. Otherwise it is asked
// for the head, and at the same time for requests that overtake: tries and requests for a shared hold that were not
// refused yet. A try that finds others waiting is refused, unless it may share the name with them and the store is
// about to say more of them (follow.go).
//
// # Places
//
// A fair waiter has a place in the store. This package says when places are to be kept (places.go), and, by what
// Leave and Enlisted return, when one is to be given up. The caller does both.
//
// # What it does not decide
//
// Whether a name is free: that is up to the store. What is done about a call whose outcome is unknown: its caller asks
// again, or undoes it. Nested holds of one holder: they are in no queue.
package arbiter
