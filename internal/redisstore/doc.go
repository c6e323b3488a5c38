// Package redisstore is a lock.Store in one Redis, in Redisson's own layout, so that programs on Redisson and
// clients of lockd exclude each other on the same names.
//
// # What it promises
//
// Each verb of each kind of lock is one Lua script (*.lua), hence one step for everybody else, and one round trip. Scripts may run twice:
// counts are absolute, fences are compared, TTLs are set and never added to. Nothing is retried here, as only the
// broker knows whether it still wants the lock. Redis may be down when a Store is opened and at any time later; the
// Store then answers broker.ErrUnavailable, and goes on by itself when Redis is back.
//
// # What it does not promise
//
// A Redis that loses its data, or fails over to a replica that lags, forgets leases. The broker hears of it at the
// next renewal. Fences keep growing even then, as long as the clock of Redis does.
//
// # Who owns time
//
// Redis does: leases are PX durations and end by its clock. No clock of ours enters a script.
//
// # How a request passes
//
// verbs.go calls the script of the kind (calls.go says with what, keys.go on which keys) and reads what it answers. That
// goes into one pipeline that all callers share (script.go, pipeline.go, line.go). Acquisitions and releases of exclusive locks
// (single.go) that wait there at the same time go as one script call (many.go). Renew and Probe have connections of their own, so
// that load cannot starve them (renew.go, check.go). One connection hears all channels (listen.go, hub.go, hubconn.go).
// errors.go says what each failure means.
//
// The scripts of a kind share what stands in front of them: plain.lua and fair.lua, rw.lua, semaphore.lua, all with
// fence.lua. Those of the exclusive lock, acquire.lua, release.lua and many.lua, have the ordinary case (take.lua, free.lua) before
// all that, as each command counts there.
package redisstore
