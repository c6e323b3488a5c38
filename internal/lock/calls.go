package lock

import "time"

// Claim is one attempt to hold a name.
type Claim struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence is the least that the Store may give: a majority has all its members give the same one. 0 leaves it to the
	// Store's clock. It is always 0 for a semaphore.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened.
	TTL time.Duration
	// WriteOwner is, for Read, the owner of a write hold that does not stand in the way: its holder wants to read as well.
	WriteOwner Owner
	// Permits is how many permits of a semaphore are taken, at least 1; 0 for other kinds.
	Permits uint32
	// Limit is how many permits a semaphore has. The Store keeps it from the first claim on; 0 takes the limit that is
	// kept.
	Limit uint32
	// Place is for how long a claim of a Placed kind keeps a place if it is refused because the name is held. The place of
	// Fair is in the queue, that of Write keeps new readers away. 0 for none.
	Place time.Duration
	// Tenant is whose share of the Store the claim uses; empty: the share of the owner's session.
	Tenant string
}

// Return is the request that ends what the claim may have taken.
func (c Claim) Return() Return {
	return Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Permits: c.Permits, Tenant: c.Tenant}
}

// Grant is a claim that succeeded.
type Grant struct {
	// Fence of the hold. A repetition gets the same one, or for a semaphore a greater one.
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
	// Keep is how many of its permits the owner of a semaphore keeps: the first ones, or all if it has no more. It is 0
	// for all other kinds.
	Keep uint32
	// Next, if set, is to hold the name from now on, with the same kind, which is not Shared. The Store frees the name
	// instead if it is the turn of another fair waiter, or if the owner goes on reading.
	Next *Successor
	// Place, if set, puts the owner of a fair hold back in front of all waiters, for this time. Not with Next. If it is 0,
	// the owner's place ends.
	Place time.Duration
	// Permits is how many permits the hold has, 0 if that is not known.
	Permits uint32
	// Tenant is as in Claim.
	Tenant string
}

// Successor is the owner to whom a name is handed.
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
	// Assumed says that the hold is gone, and that an earlier call of this Return had an unknown outcome. That call ended
	// the hold, or its lease had ended before.
	Assumed bool
}

// Renewal asks to prolong a hold.
type Renewal struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence is that of the hold, or less. A hold of the owner with a smaller fence is left from an earlier claim, and
	// counts as absent. It is not compared for Semaphore.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened; 0 only verifies that
	// the hold is there.
	TTL time.Duration
	// Permits is how many permits the hold has, 0 if that is not known.
	Permits uint32
	// Seen is when the last store call that found the hold there began, zero if that is not known. A hold that is gone was
	// lost with the store's data if the store has lost them since then.
	Seen time.Time
	// Tenant is as in Claim.
	Tenant string
}
