package broker

import (
	"context"
	"time"
)

// Kind says how a name is locked.
type Kind uint8

// The kinds. A name is used with one kind at a time.
const (
	Exclusive Kind = iota + 1
	Fair
	Read
	Write
	Semaphore
)

// String is the kind's name in logs and metrics.
func (k Kind) String() string {
	names := [...]string{"unknown", "exclusive", "fair", "read", "write", "semaphore"}
	if int(k) >= len(names) {
		return names[0]
	}
	return names[k]
}

// Owner is who holds a name in the Store: "<session uuid>:<holder>#<request>", with an empty holder if the request is
// its own. Each request has an owner of its own, so nothing done late for one can hit the hold of another.
type Owner string

// Fence is the token of a grant. Later grants of a name have greater ones.
type Fence uint64

// Claim is one attempt to hold a name.
type Claim struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Count is how often the owner holds the name afterwards. With 1 the name is taken if it is free. With more the
	// owner must hold it already, with Fence.
	Count uint32
	// Fence is the fence the owner already has; 0 when Count is 1.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened.
	TTL time.Duration
}

// Grant is a claim that succeeded.
type Grant struct {
	Fence Fence
	// TTL is the remaining time of the lease, at least the claim's.
	TTL time.Duration
}

// Return gives a hold back.
type Return struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence must be that of the hold; 0 matches any.
	Fence Fence
	// Remaining is how often the owner holds the name afterwards; 0 frees it.
	Remaining uint32
	// Next, if set, is to hold the name from now on. Only with Remaining 0.
	Next *Successor
}

// Successor is the owner a name is handed to.
type Successor struct {
	Owner Owner
	TTL   time.Duration
}

// Returned says what became of a Return.
type Returned struct {
	// HandedOver is the successor's fence when the name was handed over, else 0.
	HandedOver Fence
	// Listeners is how many subscribers heard of the release, 0 when it was not published or not known.
	Listeners int
}

// Renewal asks to prolong a hold.
type Renewal struct {
	Name  string
	Kind  Kind
	Owner Owner
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened; 0 only verifies that
	// the hold is there.
	TTL time.Duration
}

// State is what the Store knows of a name.
type State struct {
	Name string
	Kind Kind
	// Held says whether anybody holds the name; the fields below are zero if not, but for Fence.
	Held  bool
	Owner Owner
	Count uint32
	// TTL is the remaining time, or NoTTL.
	TTL time.Duration
	// Fence is the last one given out, 0 if none is known.
	Fence Fence
}

// NoTTL is the remaining time of a hold that some other program took without one.
const NoTTL time.Duration = -1

// Notice is what a listener hears of a name.
type Notice uint8

// The notices.
const (
	// NoticeListening: from now on releases are heard. Comes once after Listen and after each interruption; anything
	// may have happened before.
	NoticeListening Notice = iota + 1
	// NoticeReleased: the name was released, by whomever.
	NoticeReleased
)

// Store keeps leases. It is declared here, by its only caller; memstore and redisstore implement it and package
// storetest is its contract.
//
// Methods make one attempt and do not wait for a lock. All are safe to repeat with the same arguments. An error is
// one of
//   - what the method says,
//   - ErrUnavailable: surely nothing was done,
//   - ErrOutcomeUnknown: it may have been done, may be done late, or not at all; the caller repeats, it does not guess,
//   - ErrKindMismatch: the name is in use for something else,
//   - ErrStoreFull: the store refuses to store more.
//
// A cancelled ctx is ErrOutcomeUnknown unless the attempt was not begun.
type Store interface {
	// Acquire takes a name, or holds it once more. It returns a *HeldError if another owner has it, ErrNotHeld if
	// Claim.Count > 1 and the owner does not hold it, ErrStale if it holds it with another fence.
	// Repeated: the same fence, the same count. Executed late: the name is held until its TTL passes unless it is
	// released after that.
	Acquire(ctx context.Context, c Claim) (Grant, error)

	// Release gives a hold back, frees the name and tells the listeners, or hands it to Return.Next without telling
	// them. It returns ErrNotHeld if the owner does not hold it, ErrStale if it holds it with another fence.
	// Repeated: ErrNotHeld when it was freed; the same fence when it was handed over and the successor still holds
	// it. Executed late: ErrNotHeld or ErrStale, nobody else's hold is touched.
	Release(ctx context.Context, r Return) (Returned, error)

	// StartAcquire and StartRelease are Acquire and Release for the hot path. They return at once and tell the outcome
	// to done: exactly once, never before they return, in a goroutine that done must not block. They bound themselves.
	StartAcquire(c Claim, done func(Grant, error))
	StartRelease(r Return, done func(Returned, error))

	// Renew prolongs holds and calls done once for each, with its index, as soon as its outcome is known and
	// possibly at the same time as others, before Renew returns. The error given to done is nil, or a *GoneError if
	// the hold is not there. Renewing never brings a hold back.
	Renew(ctx context.Context, rs []Renewal, done func(i int, err error))

	// ForceRelease frees a name whoever holds it, tells the listeners and all replicas, and says whether it was held.
	ForceRelease(ctx context.Context, name string, kind Kind) (bool, error)

	// Look reads the state of a name.
	Look(ctx context.Context, name string) (State, error)

	// List reads some of the names that are held and begin with prefix, in no order, from a cursor on. An empty next
	// cursor is the end. A page may be empty, and a name may come twice. A cursor it does not know is ErrInvalid.
	List(ctx context.Context, prefix, cursor string, size int) (page []State, next string, err error)

	// Listen calls notify for a name until stop is called. notify must not block and may be called at any time, also
	// shortly after stop. Listening never fails: while the store cannot be reached no NoticeListening comes.
	Listen(name string, notify func(Notice)) (stop func())

	// ListenForced calls notify with each name that ForceRelease frees on any replica, and with "" after an
	// interruption.
	ListenForced(notify func(name string)) (stop func())

	// Probe asks whether the store can be reached. The identity changes when the server restarts.
	Probe(ctx context.Context) (identity string, err error)
}

// Keeper keeps leases alive and ends those that are lost. It is declared here, by its only caller; watchdog
// implements it. None of its methods blocks or calls back.
type Keeper interface {
	// Keep begins to keep a lease, or takes note that its validity, which is given, or its mode changed.
	Keep(l *Lease, until time.Time)
	// Drop ends that. A renewal in flight may still be told to the lease, which ignores it.
	Drop(l *Lease)
	// Hurry renews the leases now instead of at their time.
	Hurry(ls []*Lease)
}
