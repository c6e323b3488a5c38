// Package e2e tests lockd as it is shipped: the programs themselves, built with the race detector, before a real Redis
// and on real connections. Each test is a promise that the documentation makes.
//
// Nothing is tried twice, and nothing depends on the speed of the machine: tests wait for what must happen.
package e2e
