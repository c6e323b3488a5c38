// Package hub hears the channels of one Redis over one connection, for any number of listeners. It knows nothing of
// locks.
//
// # What it promises
//
// A listener is told when its channel begins to be heard, and when it is heard no more, so it knows when it may have
// missed something. A broken or silent connection is replaced. A listener that left leaves nothing behind. Listening
// and leaving never wait for the network.
//
// # What it does not promise
//
// That a message arrives: Redis keeps no message that it published.
//
// hub.go has who listens to what, conn.go the connection, passed.go how to know that nothing is under way any more.
package hub
