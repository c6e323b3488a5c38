// Package pipe is the way to one Redis: connections that are made ahead and kept, and a pipeline that many callers
// share. It knows nothing of locks.
//
// # What it promises
//
// What becomes of a command is told exactly once. It waits for the time of an operation at most, and as long for its
// answer. Nothing is sent twice. Of an error it is known whether the command may have been sent (NeverSent). A Redis
// that is not there is asked again and again; nobody has to wait for that. However much one tenant asks for, it has no
// more than its share.
//
// # What it does not promise
//
// Any order. An error other than those of NeverSent, and than the replies of Redis, does not tell whether the command
// was executed.
//
// # How a command passes
//
// Callers queue it (pipeline.go) with the others of its tenant (fairqueue.go). A sender takes a batch and sends it on
// the connection that it keeps (sender.go). trouble.go says what to do when no connection can be made.
//
// # How tenants share
//
// Each kind of command has a price in singles, the work of a plain lock or release. Tenants take turns of 32: who has
// had least is next, and who comes back has had as much as whoever is served (start-time fair queueing: Goyal, Vin and
// Cheng, 1996). A tenant whose commands that wait and are under way cost at most 64 is light, the others are heavy.
// While a light one is there, heavy ones share one batch at a time, of 8 singles or one dearer command. After a dearer
// one its sender rests for twice as long as Redis takes for it. So who waits for an answer before asking again
// does not wait for others each time (anticipatory scheduling: Iyer and Druschel, 2001). Far from Redis, where a batch
// takes 2 ms and more, nobody is held up.
package pipe
