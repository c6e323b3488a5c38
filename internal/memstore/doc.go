// Package memstore is a broker.Store in the memory of the process.
//
// # What it promises
//
// It answers exactly as the Lua scripts of package redisstore do over a Redis; random sequences of operations are
// compared in package storetest. Fences of a name strictly increase for as long as the process lives.
//
// # What it does not promise
//
// Everything is gone when the process ends, and no other process sees it. After a restart fences go on from the wall
// clock, so they keep growing unless the clock was set back.
//
// # Time and memory
//
// Leases end by time.Now when they are looked at; there is no timer and no goroutine, so that the package works inside
// a testing/synctest bubble. Each operation also looks at a few other entries, which bounds what dead ones occupy
// (sweep.go).
package memstore
