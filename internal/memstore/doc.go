// Package memstore is a lock.Store in the memory of the process.
//
// # What it promises
//
// It answers exactly as the Lua scripts of package redisstore do over a Redis that Redisson does not use; package
// storetest compares random sequences of operations. Fences of a name strictly increase for as long as the process
// lives.
//
// # What it does not promise
//
// Everything is lost when the process ends, and no other process sees it. After a restart fences go on from the wall
// clock, so they keep growing unless the clock was set back. With more than 100,000 names known, the limits of
// semaphores that nobody uses are forgotten.
//
// # Time and memory
//
// Leases, places and permits end by time.Now when they are looked at; there is no timer and no goroutine, so that the
// package works inside a testing/synctest bubble. Each operation also looks at a few other entries, which bounds the
// memory of dead ones (sweep.go).
//
// # How an operation passes
//
// It takes the mutex (work in store.go), finds the entry of its name, checks what is in the way and does its work by
// kind (kinds.go): alone.go has exclusive, fair and write holds, fair.go and queue.go the waiters of a fair lock,
// read.go and semaphore.go the kinds that many hold at once. Notices for listeners are collected and told when the
// mutex is free again (listeners.go).
package memstore
