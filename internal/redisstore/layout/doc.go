// Package layout says what the keys and channels of a name are called in Redis, as Redisson calls them where it has
// them too.
//
// # What it promises
//
// All keys of a name are in one cluster slot. No two names share a key, and no key of a name can be a name itself:
// lock.Reserved knows how they begin.
//
// # What it does not promise
//
// Channels may be shared by two names. Who hears something there looks, perhaps in vain.
package layout
