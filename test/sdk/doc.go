// Package sdk runs the tests of the SDKs that are not in Go, each with the tools of its language, on real servers:
// lockd as it is shipped, and Redis. What they need is installed by scripts/ensure.
package sdk
