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
// A ctx that has ended is ErrUnavailable. One that ends later may be ErrOutcomeUnknown; a settled store goes on with an
// acquisition or a release, and tells the outcome.
//
// What takes and ends holds is done in the order in which it is asked for. When such a call about a name is answered,
// no earlier one about it from this process is done late any more.
//
// # Settled
//
// Package settle settles a store, and a majority settles itself. Then an acquisition that fails leaves nothing, unless
// the owner repeats: it was made once more, and what it may have taken is released behind it until the owner asks
// again. And a release is done once it was asked for, whatever error is told; so nobody repeats it. A store that is not
// settled tells ErrNotReplicated or ErrInVain of what it has taken and left.
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

// Holds takes, keeps and ends holds. It is what a majority of stores can do as well as one.
type Holds interface {
	// What begins with Start returns at once and tells the outcome to done: exactly once, never before it returns, in a
	// goroutine that done must not block. It bounds itself. Await waits for it.

	// StartAcquire takes a name. An owner that holds it already goes on with that hold, for the claim's TTL at least:
	// holds are not counted. It returns a *HeldError if another owner is in the way or, for Fair, waits before it. For a
	// semaphore it returns a *LimitError if another limit is kept, or none and none is claimed, and ErrInvalid if more
	// permits are claimed than there are. A grant ends the owner's place. Repeated: the same fence. Executed late: the
	// name is held until its TTL passes unless it is released after that, or the place is kept until its time passes
	// unless it is left.
	StartAcquire(c Claim, done func(Grant, error))

	// AcquireAll takes several names, all or none, at one instant. The claims have different names, and no Place. A
	// *HeldError names the first one in the way. Repeated: like StartAcquire, for each.
	AcquireAll(ctx context.Context, cs []Claim) ([]Grant, error)

	// Raise has the fence of a hold, and the last one of its name, be at least c.Fence, and returns what it is then. c is
	// the claim that was granted. With Fence 0 it only tells it; several stores that differ raise it. It returns
	// ErrNotHeld if the owner does not hold it. Not for Semaphore. Repeated or executed late: fences only grow.
	Raise(ctx context.Context, c Claim) (Fence, error)

	// StartRelease ends a hold, frees the name and tells the listeners, or hands it to Return.Next without telling
	// them. It returns ErrNotHeld if the owner does not hold it, ErrStale if it holds it with another fence. The
	// owner's place is given up in any case. Repeated: ErrNotHeld when it was freed; no error when permits were kept;
	// the same fence when it was handed over and the successor still holds it, for at least its TTL then. Executed
	// late: ErrNotHeld or ErrStale, nobody else's hold is touched.
	StartRelease(r Return, done func(Returned, error))

	// Renew prolongs holds and calls done once for each, with its index, as soon as its outcome is known and
	// possibly at the same time as others, before Renew returns. The error given to done is nil, or a *GoneError if
	// the hold is not there. Renewing never brings a hold back. What other requests ask of the Store does not delay
	// it, unless TTL is 0. The caller uses rs again once Renew has returned, also if a command is executed later.
	Renew(ctx context.Context, rs []Renewal, done func(i int, err error))

	// StartExtend is Renew for one hold, at the wish of a client. It shares its way to the Store with all other
	// requests, so that it takes nothing from renewals; only the Keeper calls Renew. If r.TTL is more than 0, left is
	// how long the hold lasts from now on: more than r.TTL if it had more time left.
	StartExtend(r Renewal, done func(left time.Duration, err error))

	// Shorten is StartExtend, but the hold ends TTL from now also if it would have ended later, and those who wait hear
	// that it is worth another attempt. A read or write hold never takes time from others of the same name. It is never
	// executed late: when Shorten returned ErrOutcomeUnknown it was executed, or never will be.
	Shorten(ctx context.Context, r Renewal) error

	// ForceRelease frees a name whoever holds it, tells the listeners and all replicas, and says whether it was held.
	// Read frees no write hold; Write frees no readers but the writer itself, if it reads as well. All permits of a
	// semaphore are returned; it keeps its limit. It is never executed late, as Shorten: somebody else may have the
	// name by then.
	ForceRelease(ctx context.Context, name string, kind Kind) (bool, error)
}

// Queues keeps the order of those who wait in the Store, for all replicas. It takes one store that all of them ask.
type Queues interface {
	// Enlist keeps the places of fair waiters for so long from now. Owners that have no place get one behind all
	// others, in their order; but one that was taken for dead by others although its time had not passed gets one in
	// front. It returns for each how many are before it, or PlaceUnknown if it had its place already, or PlaceHolds if
	// it is the holder by now and needs no place. Repeated: nothing changes but the time. Executed late: a place is
	// kept until its time passes.
	Enlist(ctx context.Context, name string, owners []Owner, place time.Duration) ([]int, error)

	// Leave gives up the places of waiters of a Placed kind, and tells those for whom that makes room. It is no error
	// if there are none.
	Leave(ctx context.Context, name string, kind Kind, owners []Owner) error

	// Succeed has another owner, which is new, stand where the first of some fair waiters stands, for so long from now
	// at least, or hold what one of them holds, with its fence. The others have no places any more. It is no error if
	// none of them has anything. It returns how many are before the owner, or PlaceUnknown if it has no place. Repeated
	// or executed late: nothing, as they have nothing any more.
	Succeed(ctx context.Context, name string, from []Owner, to Owner, place time.Duration) (ahead int, err error)

	// Queue reads the first fair waiters of a name, at most so many, whoever's they are.
	Queue(ctx context.Context, name string, size int) ([]Owner, error)

	// ListenTurn is Listen for what other programs tell one fair waiter only.
	ListenTurn(name string, o Owner, notify func(Notice)) (stop func())
}

// LimitLives is for how long a limit is kept that nobody uses.
const LimitLives = 10 * time.Minute

// Semaphores keeps limits. One store counts permits: majorities of several cannot.
type Semaphores interface {
	// SetLimit sets how many permits a semaphore has and returns how many it had, 0 if there was no limit. What is out
	// stays out, so that fewer than none may be left to be had. If permits can be had now that could not, listeners are
	// told. A limit is forgotten LimitLives after the last permit has ended. Repeated: nothing changes, and it returns
	// the limit itself.
	SetLimit(ctx context.Context, name string, limit uint32) (previous uint32, err error)

	// RemoveLimit forgets a semaphore, and returns its limit, 0 if there was none. It returns a *HeldError while
	// permits are out. Repeated: there is none.
	RemoveLimit(ctx context.Context, name string) (previous uint32, err error)

	// AdoptLimit takes a number that another program made for a semaphore with that limit. It is ErrKindMismatch for
	// all other calls until then, or until that program has permits out. It returns a *LimitError if the limit is
	// another, 0 if there is none. Repeated: no error.
	AdoptLimit(ctx context.Context, name string, limit uint32) error
}

// Views reads what is there, for people and for those who watch.
type Views interface {
	// Look reads the state of a name.
	Look(ctx context.Context, name string) (State, error)

	// Holders reads who holds a name, at most so many. Permits have no owners that could be read: none of a semaphore.
	Holders(ctx context.Context, name string, size int) ([]Holder, error)

	// List reads some of the names that are held and begin with prefix, in no order, from a cursor on. An empty next
	// cursor is the end. A page may be empty, and a name may come twice. A cursor it does not know is ErrInvalid.
	List(ctx context.Context, prefix, cursor string, size int) (page []State, next string, err error)

	// See reads who holds a name. When it returns, those who watch the name have been notified of all that was told
	// before it was looked at, or that they may have missed something.
	See(ctx context.Context, name string) (Seen, error)
}

// Notices tells what happens to names.
type Notices interface {
	// Listen calls notify for a name of a kind until stop is called. notify must not block and may be called at any
	// time, also shortly after stop. Listening never fails: while the store cannot be reached no NoticeListening comes.
	Listen(name string, kind Kind, notify func(Notice)) (stop func())

	// Watch is Listen for who wants to hear of each end of a hold, of any kind: NoticeEnded comes for each one that
	// somebody brought about. Nobody tells of a lease that runs out, and other programs may end a hold without a word; a
	// Seen shows that. notify must not use the store.
	Watch(name string, notify func(Notice)) (stop func())

	// ListenForced calls notify with each name that ForceRelease frees on any replica, and with "" after an
	// interruption.
	ListenForced(notify func(name string)) (stop func())
}

// Peers carries messages between the replicas that share a Store. A message is heard at most once, and by nobody while
// the connection is interrupted, so nothing may depend on it but what people look at.
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
