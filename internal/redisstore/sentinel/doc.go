// Package sentinel makes connections to the server that Redis Sentinel calls the master. It knows nothing of locks.
//
// # What it promises
//
// The sentinels are asked at each connection, all at the same time. As soon as most of them have answered, the one that
// heard of the latest fail-over counts, so one that is down, or was cut off, delays and misleads nobody. A connection
// is used only if the server says itself that it is a master. When the sentinels call another server the master, the
// connections to all others are cut, also those that are being made: their users make new ones.
//
// # What it does not promise
//
// That there is one master at a time. A master that was cut off from the sentinels takes writes until it hears that it
// was replaced, and what it took is lost then.
//
// # How it learns of a fail-over
//
// A connection breaks; or a command or a probe finds that the server is a replica (CutAll); or a look at the
// sentinels, once a second, shows it. ask.go has the questions, guide.go the connections.
package sentinel
