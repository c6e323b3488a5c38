// Package inspect tells people who holds what, and who waits for it.
//
// # What it promises
//
// The store decides who holds a name, in which order requests for a fair lock wait, and how long leases last. Replicas
// add what they know of their own clients: names, addresses, annotations. A replica that does not answer within a
// second is left out, and the answer says how many did. The memory that this takes is bounded, and no lock depends on
// it.
//
// # What it does not promise
//
// An answer is not a snapshot: it may have a change that happens while it is put together, or not.
package inspect
