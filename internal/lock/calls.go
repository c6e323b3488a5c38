package lock

import "time"

// Claim is one attempt to hold a name.
type Claim struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence is the least that the Store may give: one of several Stores is told what all of them are to give. 0 leaves
	// it to the Store's clock. It is always 0 for a semaphore.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened.
	TTL time.Duration
	// WriteOwner is, for Read, the owner of a write hold that does not stand in the way: its holder wants to read as well.
	WriteOwner Owner
	// Permits is how many permits of a semaphore are taken, at least 1; 0 for other kinds.
	Permits uint32
	// Limit is how many permits a semaphore has. It is kept by the Store from the first claim on; 0 takes what is kept.
	Limit uint32
	// Place is, for a kind that is Placed, for how long a claim that is refused because the name is held keeps a
	// place: Fair one in the queue, Write one that keeps new readers away. 0 for none.
	Place time.Duration
	// Tenant is whose share of the Store it uses; empty: that of the owner's session.
	Tenant string
}

// Return asks to end what the claim may have taken.
func (c Claim) Return() Return {
	return Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Permits: c.Permits, Tenant: c.Tenant}
}

// Grant is a claim that succeeded.
type Grant struct {
	// Fence of the hold. A repetition gets the same one, but for a semaphore, where it gets a greater one.
	Fence Fence
	// TTL is the remaining time of the lease, at least the claim's.
	TTL time.Duration
}

// Return asks to end a hold: a client releases it, or lockd undoes it.
type Return struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence must be that of the hold; 0 matches any. It is not compared for Semaphore, whose owner alone decides.
	Fence Fence
	// Keep is how many permits of a semaphore the owner keeps, the first ones; one that has fewer keeps those. It is 0
	// for all other kinds.
	Keep uint32
	// Next, if set, is to hold the name from now on. It is of the same kind, which is not Shared. The Store frees the
	// name instead if it may not be handed over: it is the turn of another fair waiter, or the owner goes on reading.
	Next *Successor
	// Place, if set, is for how long the owner of a fair hold stands before all who wait from then on, as it did before it
	// was granted the name. Not with Next. Else its place ends.
	Place time.Duration
	// Permits is how many permits the hold has, 0 if that is not known.
	Permits uint32
	// Tenant is as in Claim.
	Tenant string
}

// Successor is the owner a name is handed to.
type Successor struct {
	Owner Owner
	TTL   time.Duration
	// Fence is the least fence that it is to have, as Claim.Fence. Not for Fair.
	Fence Fence
}

// Returned says what became of a Return.
type Returned struct {
	// HandedOver is the successor's fence when the name was handed over, else 0.
	HandedOver Fence
	// Listeners is how many subscribers heard of the release, 0 when it was not published or not known.
	Listeners int
	// Turn is the fair waiter that was told that it is its turn, if any.
	Turn Owner
	// Left is, for Semaphore, how many permits the owner has afterwards.
	Left uint32
	// Assumed says that the hold was not there any more after a call of the same Return whose outcome was unknown. That
	// call ended it, or its lease was over by then.
	Assumed bool
}

// Renewal asks to prolong a hold.
type Renewal struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence is that of the hold, or less: what an owner has with a smaller fence is what an earlier claim of its left. It
	// is not compared for Semaphore.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened; 0 only verifies that
	// the hold is there.
	TTL time.Duration
	// Permits is how many permits the hold has, 0 if that is not known.
	Permits uint32
	// Seen is when the last store call began that found the hold there, zero if that is not known. A hold that is gone
	// was lost with the data of the store if those are other ones by now.
	Seen time.Time
	// Tenant is as in Claim.
	Tenant string
}
