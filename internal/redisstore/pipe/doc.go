// Package pipe is the way to one Redis: a connection that is made ahead and kept, and a pipeline that many callers
// share. It knows nothing of locks.
//
// # What it promises
//
// What becomes of a command is told exactly once. It waits for the time of an operation at most, and as long for its
// answer. Nothing is carried out twice. An error says whether the command may have been sent (NeverSent). While Redis
// is away, the pipeline connects again and again, and nobody has to wait for that. However much one tenant asks for, it
// has no more than its share.
//
// The commands of a tenant are carried out in the order in which they were put. If the Dialer has Unended, this holds
// over connections: when a command is answered, no earlier one of its tenant is under way any more. It was carried out
// before, or it never will be.
//
// # What it does not promise
//
// Any order of the commands of different tenants. An error other than those of NeverSent and the replies of Redis does
// not tell whether the command was executed.
//
// # How a command passes
//
// Callers queue it (pipeline.go) with the others of its tenant (fairqueue.go). One goroutine takes batches and writes
// them (way.go, batch.go), up to two at a time; another one reads the answers (conn.go, resp.go) and tells them.
// go-redis only makes connections (dialer.go). trouble.go says what to do when none can be made.
//
// # What is not answered
//
// When an answer is overdue or a connection breaks, the outcome of all commands under way on it is unknown. The
// network, or a proxy, may still have them. So the next connection to a server of the same run id ends the earlier one
// by CLIENT KILL before it sends anything else (unended.go). Connections that were not ended yet are remembered,
// because a fail-over may lead back to their server. If the server refuses CLIENT KILL, nothing is sent for 15 s, as
// long as a command may be on its way.
//
// A script that Redis has forgotten was not carried out, and is sent again in full. It goes in front of the later
// commands of its tenant, so the order is kept. If one of those was sent already, it is refused instead.
//
// # How tenants share
//
// Each kind of command has a price in singles, the work of a plain lock or release. Tenants take turns of 32: the one
// that has had least is next, and one that comes back counts as having had as much as the one that is served
// (start-time fair queueing: Goyal, Vin and Cheng, 1996). A tenant whose commands, waiting and under way, cost at most
// 64 is light, the others are heavy. While a light one is there, heavy ones share one batch at a time, of 8 singles or
// one dearer command. After a dearer one they rest for twice as long as Redis takes for it. So a tenant that waits for
// each answer before it asks again does not wait for others each time (anticipatory scheduling: Iyer and Druschel,
// 2001). Far from Redis, where a batch takes 2 ms and more, nobody is held up.
package pipe
