// Package inbound bounds what HTTP/2 clients cost before they ask for anything: the memory for messages that have not
// fully arrived, and the work of frames that ask for nothing.
//
// A Conn is put between a connection and gRPC. It sees the header of each frame that passes, both ways, and the length
// of each message. So it knows which calls are open, and which of them wait for the rest of a message.
//
// # What it promises
//
// Messages that have not fully arrived hold no more than Limits allow for a connection, for an address and in all, and
// none longer than Limits.Time. When there is too much, the call ends whose message has been under way for longest: an
// honest client has sent its message long before. The other calls of the connection live on, unless the client stopped
// in the middle of a frame.
//
// Calls that are reset or refused, large headers, pings and settings are work without a request. It is counted in
// processor time, for each address, so that a new connection gains nothing. Once an address has caused more than Share
// of a processor, its connections that go on with such work are read later. All others are read at once, also those of
// the same address.
//
// # What it does not promise
//
// It does not read requests: once a message is there, others bound what it costs. All clients behind a proxy are one
// address, and behind one connection of it they wait for each other.
package inbound
