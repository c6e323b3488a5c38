// Package watch hears and sees what becomes of names in one Redis.
//
// # What it promises
//
// Who listens is told when it may have missed something. Who watches is told of each end of a hold, and of each change
// that Redis tells of. Releases by programs on Redisson are told like those by lockd, when the name is looked at. A
// look returns when all that was told before is heard.
//
// # What it does not promise
//
// That each end is told once, or at all: a message may be lost, or say less than a look. Package watching compares
// what was heard with what is seen.
//
// # How it works
//
// listen.go turns messages on channels into notices. watch.go makes one stream of notices of all channels of a name.
// tracker.go looks at watched names over a connection of its own, for which Redis tells of changes.
package watch
