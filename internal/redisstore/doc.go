// Package redisstore is a lock.Store in one Redis, in Redisson's own layout, so that programs on Redisson and clients
// of lockd exclude each other on the same names.
//
// # What it promises
//
// Each verb of each kind of lock is one Lua script, hence one step for everybody else, and one round trip. Scripts may
// run twice: counts are absolute, fences are compared, TTLs are set and never added to. Nothing is retried here, as
// only the broker knows whether it still wants the lock. Redis may be down when a Store is opened and at any time
// later; the Store then answers lock.ErrUnavailable, and goes on by itself when Redis is back.
//
// # What it does not promise
//
// A Redis that loses its data, or fails over to a replica that lags, forgets leases. The broker notices that at the
// next renewal, and renews all leases when another server answers. Fences keep growing even then, as long as the clock
// of Redis does.
//
// # Who owns time
//
// Redis does: leases are PX durations and end by its clock. No clock of ours enters a script.
//
// # Its packages
//
//	redisstore          acquire and release: operation.go; force: verbs.go; look and list: look.go
//	redisstore/watch    who listens and watches: channels, and what Redis tells of changes
//	redisstore/renew    who keeps holds: renewals and probes, on a connection of their own
//	redisstore/script   the Lua scripts, how they are called and what their answers and errors mean
//	redisstore/hub      one connection hears all channels
//	redisstore/sentinel who is the master, if Redis Sentinel decides that
//	redisstore/pipe     the way to Redis: connections, and a pipeline that all callers share
//	redisstore/layout   what keys and channels are called
//
//	redisstore/dataloss whether a server may have forgotten holds
//	redisstore/examine  what is wrong with a server, for operators
//	redisstore/cluster  the same store over the nodes of a Redis Cluster
//
// Hub and pipe know nothing of locks.
//
// # How a request passes
//
// A verb calls the script of its kind through the pipeline (calls.go has the arguments, layout the keys) and reads the
// answer. Acquisitions and releases (operation.go) of exclusive locks, read holds and single permits (ordinary.go) that
// wait there at the same time go as one script call (many.go).
package redisstore
