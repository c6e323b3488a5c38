// Package script has the Lua scripts, calls them, and reads what they answer.
//
// # What it promises
//
// A call is executed once or not at all, also by a Redis that has forgotten the script. Each error says whether it is
// known that nothing was done (errors.go): if not, it is lock.ErrOutcomeUnknown. An answer that no script gives is an
// unknown outcome, too.
//
// # What it does not promise
//
// Anything about what a script does: the first lines of each *.lua say that. The scripts of a kind have libraries in
// front of them, see NewScripts: plain.lua and fair.lua, rw.lua, semaphore.lua, all with fence.lua. The scripts of the
// exclusive lock, acquire.lua, release.lua and many.lua, have the ordinary case (take.lua, free.lua) before the
// libraries, because each command counts there.
//
// # How a call passes
//
// A Script with its keys and arguments is a Call (script.go), with a cost (cost.go). A Caller runs it on the pipeline
// (caller.go) and returns its Answer (answer.go).
package script
