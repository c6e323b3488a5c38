// Package renew keeps holds in one Redis, and finds out why one is gone.
//
// # What it promises
//
// What renews leases and what asks whether Redis is there has a connection of its own, so that load cannot starve it. A
// call is for so many holds that it is cheap, and keeps Redis busy for about a millisecond. Nothing is ever shortened
// by a renewal. Of a hold that is gone it is told whether it was freed or lost with the data (dataset.go).
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
