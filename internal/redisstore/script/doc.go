// Package script has the Lua scripts, calls them, and reads what they answer.
//
// # What it promises
//
// A call is executed once or not at all, also by a Redis that has forgotten the script. Each error says whether it is
// known that nothing was done (errors.go): lock.ErrUnavailable and the like if so, else lock.ErrOutcomeUnknown. An
// answer that no script gives is such an unknown outcome.
//
// # What it does not promise
//
// What a script does: that is said at the top of each *.lua. The scripts of a kind share what stands in front of them,
// see NewScripts: plain.lua and fair.lua, rw.lua, semaphore.lua, all with fence.lua. Those of the exclusive lock,
// acquire.lua, release.lua and many.lua, have the ordinary case (take.lua, free.lua) before all that, as each command
// counts there.
//
// # How a call passes
//
// A Script with its keys and words is a Call (script.go), with a cost (cost.go). A Caller runs it on the pipeline
// (caller.go) and returns its Answer (answer.go).
package script
