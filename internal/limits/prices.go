package limits

import "time"

// What requests cost a processor of lockd, with their messages, from the first byte to the last. Prices are static:
// they need not be true, but in proportion to each other.
const (
	Refusal   = 10 * time.Microsecond  // any request that is answered and did not ask the store
	Sign      = 4 * time.Microsecond   // a heartbeat, or a message that asks for nothing
	OddByte   = Refusal / 100          // a byte of a message that only package proto can read: 80 to 400 ns
	LeaseLook = 100 * time.Nanosecond  // a lease that is looked at for a list
	Looked    = 10 * time.Microsecond  // a name that the store is asked for, for a list
	Leaving   = 60 * time.Microsecond  // a place in a queue of the store that is given up
	Watching  = 100 * time.Microsecond // a name that is watched from now on: subscriptions, and a look
	Change    = 200 * time.Microsecond // the end of a hold whose name the same tenant watches, with what it costs Redis
	Told      = 15 * time.Microsecond  // to tell one watcher of the same tenant of it
	Opening   = 250 * time.Microsecond // a session, with its end
	Unary     = 100 * time.Microsecond // a unary call
	HeadByte  = 35 * time.Nanosecond   // a byte of the header of a request by HTTP, beyond the first KiB: of 2,000 fields
	BodyByte  = 12 * time.Nanosecond   // a byte of the body of such a request, which is JSON
	Chunked   = 32 * time.Nanosecond   // what a byte of a body in chunks costs more: each may be a chunk
	Stranger  = 250 * time.Microsecond // a call whose caller is not let in: a signature may have been verified
	SettleAt  = 100 * time.Microsecond // a session that owes less does not pay yet
)
