// Package request defines what a client may ask for, and checks it.
//
// # What it promises
//
// A request that passes is in order by itself: its names are readable, all keys of a name are in one cluster slot, no
// name is a helper key of another lock, and no number is out of its bounds. One that does not pass is refused with an
// *lock.InvalidError, which names the field, or because of a limit.
//
// # What it does not promise
//
// It knows nothing of what is held and who asks.
package request
