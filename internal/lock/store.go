package lock

import (
	"context"
	"time"
)

// Store keeps leases. The broker calls it; memstore, redisstore with its cluster, and redlock implement it; package
// settle stands in front of one. Package storetest is its contract.
//
// Methods make one attempt and do not wait for a lock. All are safe to repeat with the same arguments. An error is
// one of
//   - what the method says,
//   - ErrUnavailable: surely nothing was done,
//   - ErrOutcomeUnknown: it may have been done, or be done late, or not at all; the caller repeats, it does not guess,
//   - ErrKindMismatch: the name, or a key that belongs to it, is in use for something else; nothing was done,
//   - ErrStoreFull: the store refuses to store more; nothing was done.
//
// If ctx has ended, a call returns ErrUnavailable. If it ends during the call, the error may be ErrOutcomeUnknown; but
// a settled store goes on with an acquisition or a release, and tells the outcome.
//
// Calls that take or end holds are carried out in the order in which they are made. When such a call about a name is
// answered, no earlier one of this process about that name is carried out any more.
//
// # Settled
//
// Package settle settles a store, and a majority settles itself. An acquisition of a settled store that fails leaves
// nothing, unless Owner.Repeats: it was made once more, and what it may have taken is released until the owner asks
// again. A release is carried out once it was asked for, whatever error is told; so nobody repeats it. A store that is
// not settled says by ErrNotReplicated or ErrInVain that it has taken something and left it.
type Store interface {
	Holds
	Queues
	Semaphores
	Views
	Notices
	Peers
	Sessions

	// Probe asks whether the store can be reached. The identity changes when the server restarts.
	Probe(ctx context.Context) (identity string, err error)
}

// Holds takes, keeps and ends holds. A majority of stores can do this as well as one store.
type Holds interface {
	// A method whose name begins with Start returns at once and tells the outcome to done: exactly once, in another
	// goroutine, which done must not block. It bounds itself. Await waits for it.

	// StartAcquire takes a name. An owner that holds it already goes on with that hold, for the claim's TTL at least:
	// holds are not counted. It returns a *HeldError if another owner is in the way or, for Fair, waits before it. For a
	// semaphore it returns a *LimitError if another limit is kept, or if none is kept and none claimed; and ErrInvalid if
	// more permits are claimed than the limit. A grant ends the owner's place. Repeated: the same fence. Executed late:
	// the name stays held until it is released or its TTL passes, or the place stays until it is given up or its time
	// passes.
	StartAcquire(c Claim, done func(Grant, error))

	// AcquireAll takes several names, all or none, at one instant. The claims have different names, and no Place. A
	// *HeldError names the first one in the way. Repeated: like StartAcquire, for each.
	AcquireAll(ctx context.Context, cs []Claim) ([]Grant, error)

	// Raise raises the fence of a hold, and the last fence of its name, to c.Fence at least, and returns what the hold's
	// fence is then. c is the claim that was granted. With c.Fence 0 it only returns the fence, which members that differ
	// raise. It returns ErrNotHeld if the owner does not hold the name. Not for Semaphore. Repeated or executed late:
	// fences only grow.
	Raise(ctx context.Context, c Claim) (Fence, error)

	// StartRelease ends a hold, frees the name and tells the listeners, or hands it to Return.Next without telling them.
	// It returns ErrNotHeld if the owner does not hold the name, ErrStale if it does so with another fence. The owner's
	// place ends in any case, unless Return.Place keeps it. Repeated: ErrNotHeld if it was freed; no error if permits were
	// kept; the same fence if it was handed over and the successor still holds the name, which then lasts for its TTL at
	// least. Executed late: ErrNotHeld or ErrStale; nobody else's hold is touched.
	StartRelease(r Return, done func(Returned, error))

	// Renew prolongs holds. Before it returns, it calls done once for each, with its index, as soon as the outcome is
	// known, and perhaps from several goroutines at once. The error is a *GoneError if the hold is not there. Renewing
	// never brings a hold back. Other requests do not delay a renewal, unless its TTL is 0. The caller may change rs when
	// Renew has returned, even if a command is executed later.
	Renew(ctx context.Context, rs []Renewal, done func(i int, err error))

	// StartExtend is Renew for one hold, at the wish of a client. It shares the way to the Store with all other requests,
	// so that it delays no renewals; only the Keeper calls Renew. If r.TTL is more than 0, left is how long the hold lasts
	// from now on: r.TTL, or more if it had more time left.
	StartExtend(r Renewal, done func(left time.Duration, err error))

	// Shorten has a hold end r.TTL from now, even if it would have ended later, and tells those who wait that it is worth
	// another attempt. Shortening a read or write hold takes no time from other holds of the name. It is never executed
	// late: if it returns ErrOutcomeUnknown, it was executed, or never will be.
	Shorten(ctx context.Context, r Renewal) error

	// ForceRelease frees a name whoever holds it, tells the listeners and all replicas, and says whether it was held. Read
	// frees no write hold; Write frees a writer, with its own read hold, but no name that is only read. A semaphore gets
	// all permits back and keeps its limit. Like Shorten it is never executed late: somebody else may have the name by
	// then.
	ForceRelease(ctx context.Context, name string, kind Kind) (bool, error)
}

// Queues keeps the order of those who wait in the Store, for all replicas. This needs one store that all of them ask.
type Queues interface {
	// Enlist keeps the places of fair waiters for place from now. Owners without a place get one behind all others, in
	// their order; but an owner that another program took out although its time had not passed gets one in front. It
	// returns for each how many are before it, or PlaceUnknown if it had a place already, or PlaceHolds if it holds the
	// name by now. Repeated: nothing changes but the time. Executed late: a place stays until its time passes.
	Enlist(ctx context.Context, name string, owners []Owner, place time.Duration) ([]int, error)

	// Leave gives up the places of waiters of a Placed kind, and tells those who can go on now. It is no error if there
	// are no such places.
	Leave(ctx context.Context, name string, kind Kind, owners []Owner) error

	// Succeed gives to, an owner that is new, the first of the places of from, for place from now at least, and the hold
	// that one of them has, with its fence. Their other places end. It is no error if from have nothing. It returns how
	// many are before to, or PlaceUnknown if to has no place. Repeated or executed late: nothing happens, as from have
	// nothing any more.
	Succeed(ctx context.Context, name string, from []Owner, to Owner, place time.Duration) (ahead int, err error)

	// Queue reads the first size fair waiters of a name, those of other programs, too.
	Queue(ctx context.Context, name string, size int) ([]Owner, error)

	// ListenTurn is Listen for what other programs tell the waiter o alone.
	ListenTurn(name string, o Owner, notify func(Notice)) (stop func())
}

// LimitLives is for how long a limit is kept while nobody uses it.
const LimitLives = 10 * time.Minute

// Semaphores keeps limits. One store counts permits: majorities of several cannot.
type Semaphores interface {
	// SetLimit sets how many permits a semaphore has and returns how many it had, 0 if there was no limit. Permits that
	// are out stay out, even if they are more than the new limit. If it makes permits available, listeners are told. A
	// limit is forgotten LimitLives after the last permit has ended. Repeated: nothing changes, and it returns the limit
	// itself.
	SetLimit(ctx context.Context, name string, limit uint32) (previous uint32, err error)

	// RemoveLimit forgets a semaphore, and returns its limit, 0 if there was none. It returns a *HeldError while
	// permits are out. Repeated: there is none.
	RemoveLimit(ctx context.Context, name string) (previous uint32, err error)

	// AdoptLimit takes a number that another program made for a semaphore with this limit. Until then, or until that
	// program has permits out, all other calls return ErrKindMismatch. It returns a *LimitError if the limit is another
	// one, or if there is none. Repeated: no error.
	AdoptLimit(ctx context.Context, name string, limit uint32) error
}

// Views reads the state of names, for people and for those who watch.
type Views interface {
	// Look reads the state of a name.
	Look(ctx context.Context, name string) (State, error)

	// Holders reads who holds a name, at most size holders. Of a semaphore there are none: permits have no owners that
	// could be read.
	Holders(ctx context.Context, name string, size int) ([]Holder, error)

	// List reads about size of the names that are held and begin with prefix, in no order, from cursor on. An empty next
	// is the end. A page may be empty, and a name may come twice. An unknown cursor is ErrInvalid.
	List(ctx context.Context, prefix, cursor string, size int) (page []State, next string, err error)

	// See reads who holds a name. When it returns, those who watch the name have been notified of all that was told before
	// See looked, or that they may have missed something.
	See(ctx context.Context, name string) (Seen, error)
}

// Notices tells what happens to names.
type Notices interface {
	// Listen calls notify for a name of a kind until stop is called. notify must not block and may be called at any time,
	// also shortly after stop. Listening never fails: while the store cannot be reached, NoticeListening does not come.
	Listen(name string, kind Kind, notify func(Notice)) (stop func())

	// Watch is Listen for the ends of holds of any kind: NoticeEnded comes for each hold that somebody ended. There is no
	// notice when a lease runs out, nor always when another program ends a hold; a Seen shows that. notify must not use
	// the store.
	Watch(name string, notify func(Notice)) (stop func())

	// ListenForced calls notify with each name that ForceRelease frees on any replica, and with "" after an
	// interruption.
	ListenForced(notify func(name string)) (stop func())
}

// Peers carries messages between the replicas that share a Store. A subscriber hears a message at most once, and not at
// all while its connection is interrupted. So only what people look at may depend on it.
type Peers interface {
	// Publish sends a message to all who are subscribed to a topic, and says how many those are.
	Publish(ctx context.Context, topic string, message []byte) (heard int, err error)
	// Subscribe calls notify with each message of a topic until stop is called. notify must not block, and must not
	// change the message.
	Subscribe(topic string, notify func(message []byte)) (stop func())
}

// What Enlist and Succeed answer besides a position.
const (
	PlaceUnknown = -1
	PlaceHolds   = -2
)
