// Package watch hears and sees what becomes of names in one Redis.
//
// # What it promises
//
// A listener is told when it may have missed something. A watcher is told of each end of a hold that is published, and
// of each change that Redis tells of. Releases by programs on Redisson are told like those by lockd, but only at the
// next look at the name. A look returns when the watchers have heard all that Redis sent before.
//
// # What it does not promise
//
// That each end is told once, or at all: a message may be lost, or a look may show more than the messages. Package
// watching compares what was heard with what is seen.
//
// # How it works
//
// listen.go turns messages on channels into notices. watch.go makes one stream of notices of all channels of a name.
// tracker.go looks at watched names over a connection of its own. Redis tells of later changes of what that connection
// read.
package watch
