// Package sentinel makes connections to the server that Redis Sentinel calls the master. It knows nothing of locks.
//
// # What it promises
//
// The sentinels are asked at each connection, all at the same time. As soon as a majority has answered, the answer with
// the latest fail-over counts. So a sentinel that is down, or was cut off, delays and misleads nobody. A connection is
// used only if the server says itself that it is a master. When the sentinels call another server the master, the
// connections to all others are cut, also those that are being made: their users make new ones.
//
// # What it does not promise
//
// That there is one master at a time. A master that was cut off from the sentinels takes writes until it hears that it
// was replaced. Then these writes are lost.
//
// # How it learns of a fail-over
//
// A connection breaks, or a command or a probe finds that the server is a replica (CutAll), or a sentinel says so: they
// are asked once a second. ask.go has the questions, guide.go the connections.
package sentinel
