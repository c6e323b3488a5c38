// Package inspect tells people who holds what, and who waits for it.
//
// # What it promises
//
// The store decides who holds a name, in which order fair ones wait, and how long that lasts. What replicas know of
// their own clients is added: names, addresses, annotations. A replica that does not answer within a second is left
// out, and it is said how many answered. What is kept for that is bounded, and nothing else depends on it.
//
// # What it does not promise
//
// An answer is not one moment: what changes while it is put together may be seen before or after that.
package inspect
