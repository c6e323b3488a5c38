// Package pipe is the way to one Redis: connections that are made ahead and kept, and a pipeline that many callers
// share. It knows nothing of locks.
//
// # What it promises
//
// What becomes of a command is told exactly once. It waits for the time of an operation at most, and as long for its
// answer. Nothing is sent twice. Of an error it is known whether the command may have been sent (NeverSent). A Redis
// that is not there is asked again and again; nobody has to wait for that. Commands that cost Redis much delay others
// by one batch at most. However much one tenant asks for, it has no more than its share.
//
// # What it does not promise
//
// Any order. An error other than those of NeverSent, and than the replies of Redis, does not tell whether the command
// was executed.
//
// # How a command passes
//
// Callers queue it (pipeline.go) in a line by its cost (line.go), with the others of its tenant (tenant.go). A sender
// takes a batch (pace.go, batch.go) and sends it on the connection that it keeps (sender.go). trouble.go says what to
// do when no connection can be made.
//
// # How tenants share
//
// A line is a deficit round robin (Shreedhar and Varghese, "Efficient Fair Queueing Using Deficit Round Robin", 1995;
// the idea of fair queueing is that of Demers, Keshav and Shenker, 1989). Each tenant has a queue. In each round it may
// have jobs done that cost as much as those of any other tenant. Tenants with so few jobs that one turn is enough go
// first, as in FQ-CoDel (RFC 8290), and of those first who has the fewest.
//
// What a job costs is expected by what it asks, and by what the last jobs of its tenant really cost: Redis tells its
// time before and after the jobs of each busy tenant in a batch. With one tenant alone nothing of this is done.
//
// A client that asks again when it has its answer has nothing waiting for a moment. If others were served without end
// in that moment, it would wait for them each time. So busy tenants leave a part of the time unused while such a client
// is there (Iyer and Druschel, "Anticipatory scheduling", 2001). If Redis is far away, they do not.
package pipe
