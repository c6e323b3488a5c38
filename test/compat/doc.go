// Package compat tests lockd and its clients of this commit together with those of an earlier one, on the same Redis:
// replicas of both, old clients with a new server, new clients with an old one, and sessions that move from one to the
// other as in a rolling update, and back.
//
// Old clients are the earlier lockctl, which is built on the earlier Go SDK. make test-compat REF=... builds it and
// runs this; without -old the tests say so and do nothing.
package compat
