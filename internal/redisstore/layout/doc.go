// Package layout says what the keys and channels of a name are called in Redis. Where Redisson has them too, they are
// called as there.
//
// # What it promises
//
// All keys of a name are in one cluster slot. No two names share a key, and no helper key can be a name itself:
// lock.Reserved knows them.
//
// # What it does not promise
//
// Channels of their own: two names may share one. So a listener may look at its name in vain.
package layout
