// Package e2e tests lockd as it is shipped: the programs themselves, built with the race detector, before a real Redis
// and on real connections. Each test is a promise that the documentation makes.
//
// Nothing is tried twice. Where a promise names a time, that time is the bound; all other bounds are generous. Tests
// that put load on the machine, or that measure milliseconds under load, run alone; those that mostly wait run side by
// side after them.
//
// LOCKD_E2E_LONG=1 adds those that take minutes.
package e2e
