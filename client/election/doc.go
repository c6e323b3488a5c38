// Package election elects a leader: of all candidates in an election, which is known by a name, at most one leads at a
// time.
//
//	e := election.New(c, "scheduler")
//
//	term, err := e.Campaign(ctx, election.Candidate{ID: "10.0.0.7:8080"}) // waits until it leads
//	...
//	defer term.Resign(ctx)
//	err = lead(term.Context(), term.Fence())
//
//	for leader, err := range e.Observe(ctx) { // elsewhere: who leads now, and each change
//		...
//	}
//
// # What it promises
//
// The leader holds the lock with the name of the election, and nothing else is kept anywhere. So a term has what a
// client.Lock has: it knows until when it surely lasts, also when the server cannot be reached; it ends once; and a
// later term has a greater fence.
//
// A Campaign that returns an error leaves nothing behind: no lock, and no place in a queue, that outlives a lease.
//
// # What it does not promise
//
// A leader can be stopped after it asked whether it leads, and act when another one leads already. Only a resource that
// is given the fence of the term, and refuses smaller fences than it has seen, is safe from that.
//
// An observer is told of a change soon, not at once, and may miss a leader who led for a moment only.
package election
