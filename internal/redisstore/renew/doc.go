// Package renew keeps holds in one Redis, and finds out why one is gone.
//
// # What it promises
//
// Renewals and probes have a connection of their own, so that load cannot starve them. One call renews many holds, but
// keeps Redis busy for about a millisecond only. A renewal never shortens a lease. If a hold is gone, the caller is
// told whether it was freed or lost with the data (dataset.go).
//
// # What it does not promise
//
// When to renew: the watchdog knows that.
//
// # How a renewal passes
//
// renew.go cuts the holds into chunks, and asks script/renew.lua for each. shorten.go makes a hold end sooner.
// check.go is the probe: it also says whether a server can be used.
package renew
