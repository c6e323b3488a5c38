// Package conformance says what a client of lockd does, in scenarios that are data, and plays them with every SDK:
// over real replicas of lockd, a real Redis, and networks that fail. README.md says how to read the scenarios, and what
// a language needs to take part.
//
// Its tests read top down: a scenario is read and checked (scenario, words, wants), and played (player) with the
// programs that speak for a language (driver) in a world that fails as it is told (world). Apart from that, many waits
// end in all ways, and must leave nothing (crowd).
package conformance
