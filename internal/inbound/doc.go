// Package inbound bounds what clients of HTTP/2 cost before anything is asked: what is held of messages that have not
// arrived, and the work of frames that ask for nothing.
//
// A Conn is put between a connection and gRPC. It sees the header of each frame that passes, both ways, and the length
// of each message. So it knows which calls are open, and which of them wait for the rest of a message.
//
// # What it promises
//
// Messages that have not arrived hold no more than Limits say, of one connection, of one address and in all, and none
// for longer than Limits.Time. When there is too much, the call ends whose message has been on its way for longest: who
// sends messages as a client does has sent them long before. The other calls of the connection live on, unless the
// client stopped in the middle of a frame.
//
// Calls that are reset or refused, large headers, pings, settings and such are work without a request. It is counted
// for each address, by what it costs a processor. Who causes more than Share of one is read later, once that is paid,
// so that a new connection gains nothing. Other connections are read at once, also those of the same address.
//
// # What it does not promise
//
// It does not read requests: once a message is there, others bound what it costs. All clients behind a proxy are one
// address, and behind one connection of it they wait for each other.
package inbound
