// Package hostile has wrong messages of a server, and servers that send them. A client must not fail with them: its
// calls keep their bounds, it reports no lock as held that it did not ask for, and when it is closed nothing is left.
//
// It also has servers that do nothing wrong, and note what a client says to them: see ServeScripts.
//
// The tests of the SDKs use it. The Go SDK gets the messages from a server in virtual time, see client/hostile_test.go;
// the others from real servers, see Serve. The Python SDK has the like in a server of its own,
// sdk/python/tests/fake.py.
package hostile
