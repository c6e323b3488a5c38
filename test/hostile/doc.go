// Package hostile has what a server may say wrongly, and servers that do. A client of them must not fail with them: its
// calls keep their bounds, it reports no lock as held that it did not ask for, and when it is closed nothing is left.
//
// It also has servers that do nothing wrong, and note what a client says to them: see ServeScripts.
//
// The tests of the SDKs use it. The Go SDK hears it from a server in virtual time, see client/hostile_test.go; the
// others from real ones, see Serve. The Python SDK has the like in a server of its own, sdk/python/tests/fake.py.
package hostile
