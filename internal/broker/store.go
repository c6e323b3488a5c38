package broker

import (
	"context"
	"crypto/sha1" //nolint:gosec // a name, and no secret
	"encoding/hex"
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

// Shared says whether several owners can hold a name of this kind at once.
func (k Kind) Shared() bool { return k == Read || k == Semaphore }

// Placed says whether a waiter for a name of this kind keeps a place in the Store.
func (k Kind) Placed() bool { return k == Fair || k == Write }

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
	// owner must hold it already, with Fence. Always 1 for a semaphore.
	Count uint32
	// Fence is the fence the owner already has; 0 when Count is 1.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened. For Read it is that of the
	// hold with the number Count alone; the others keep theirs.
	TTL time.Duration
	// Beside is, for Read, the owner of a write hold that does not stand in the way: its holder wants to read as well.
	Beside Owner
	// Permits is how many permits of a semaphore are taken, at least 1; 0 for other kinds.
	Permits uint32
	// Limit is how many permits a semaphore has. It is kept by the Store from the first claim on; 0 takes what is kept.
	Limit uint32
	// Place is, for a kind that is Placed, for how long a claim that is refused because the name is held keeps a
	// place: Fair one in the queue, Write one that keeps new readers away. 0 for none.
	Place time.Duration
}

// Grant is a claim that succeeded.
type Grant struct {
	// Fence of the hold. A repetition gets the same one, but for a semaphore, where it gets a greater one.
	Fence Fence
	// TTL is the remaining time of the lease, at least the claim's. For Read it is that of the hold that was claimed.
	TTL time.Duration
}

// Return gives a hold back.
type Return struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence must be that of the hold; 0 matches any. It is not compared for Semaphore, whose owner alone decides.
	Fence Fence
	// Remaining is how often the owner holds the name afterwards; 0 frees it. For Semaphore it is how many permits the
	// owner keeps, the first ones; an owner that has fewer keeps those.
	Remaining uint32
	// Next, if set, is to hold the name from now on. Only with Remaining 0 and if it is of the same kind, which is not
	// Shared. The Store frees the name instead if it may not be handed over: it is the turn of another fair waiter, or
	// the owner goes on reading.
	Next *Successor
	// Permits is how many permits the hold has, 0 if that is not known.
	Permits uint32
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
	// Turn is the fair waiter that was told that it is its turn, if any.
	Turn Owner
	// Left is, for Semaphore, how many permits the owner has afterwards.
	Left uint32
}

// Renewal asks to prolong a hold.
type Renewal struct {
	Name  string
	Kind  Kind
	Owner Owner
	// Fence must be that of the hold; 0 matches any. It is not compared for Semaphore.
	Fence Fence
	// TTL is how long the lease lasts from now. A longer remaining time is never shortened; 0 only verifies that
	// the hold is there.
	TTL time.Duration
	// Permits is how many permits the hold has, 0 if that is not known.
	Permits uint32
	// Level is, for Read, which of the owner's holds is to last so long, counted from 1; 0 is the first.
	Level uint32
	// Seen is when the last store call began that found the hold there, zero if that is not known. A hold that is gone was
	// lost with the data of the store if those are other ones by now.
	Seen time.Time
}

// State is what the Store knows of a name.
type State struct {
	Name string
	// Kind is Exclusive for Fair, too, unless somebody queues: the Store does not tell them apart.
	Kind Kind
	// Held says whether anybody holds the name; the fields below are zero if not, but for Fence and what is said of a
	// semaphore and a queue.
	Held bool
	// Owner is one of the owners, the writer if there is one. Permits have no owner that could be read.
	Owner Owner
	// Count is how often that owner holds the name.
	Count uint32
	// Holders is how many hold the name; for a semaphore, how many permits are out. A writer that reads as well is one,
	// although it has two owners.
	Holders uint32
	// TTL is the remaining time, or NoTTL. With several holders it is the longest.
	TTL time.Duration
	// Fence is the last one given out, 0 if none is known.
	Fence Fence
	// Limit is how many permits a semaphore has.
	Limit uint32
	// Queued is how many fair waiters there are, wherever they wait.
	Queued uint32
}

// Holder is one who holds a name, as the Store knows it.
type Holder struct {
	Owner Owner
	// Kind is Exclusive for Fair, too: the Store does not tell them apart.
	Kind Kind
	// Count is how often the owner holds the name.
	Count uint32
	// TTL is the remaining time of the owner's lease, or NoTTL.
	TTL time.Duration
}

// NoTTL is the remaining time of a hold that some other program took without one.
const NoTTL time.Duration = -1

// Notice is what a listener hears of a name.
type Notice struct {
	What What
	// For is the fair waiter that is meant, or empty: everybody is.
	For Owner
	// After is, with NoticeTurn, when the name will be free at the latest.
	After time.Duration
	// Cause and Fence are, with NoticeEnded, those of the hold. The fence is 0 if it is not known.
	Cause EndCause
	Fence Fence
	// Hold is, with NoticeEnded, its ID as in a Sight, or empty: the fence tells which one it was.
	Hold string
}

// What happened.
type What uint8

// What a Notice can say.
const (
	// NoticeListening: from now on releases are heard. Comes once after Listen or Watch and after each interruption;
	// anything may have happened before.
	NoticeListening What = iota + 1
	// NoticeReleased: the name was released, by whomever, or it may be worth another attempt.
	NoticeReleased
	// NoticeTurn: a fair waiter is the next one, but the name is held.
	NoticeTurn
	// NoticeDeaf: releases are not heard at the moment. NoticeListening will come.
	NoticeDeaf

	// The others are for those who watch a name.

	// NoticeEnded: a hold ended, with Cause and Fence.
	NoticeEnded
	// NoticeChanged: something about the name changed, or may have. A Sight tells what.
	NoticeChanged
	// NoticeFlushed: the store lost its data, or may have.
	NoticeFlushed
)

// EndCause is what ended a hold.
type EndCause uint8

// The causes. EndUnknown: nobody observed the name when the hold ended.
const (
	EndUnknown EndCause = iota
	EndReleased
	EndHandedOver
	EndExpired
	EndForced
	EndDataLoss
)

// Sight is what there is to be seen of the holds of a name.
type Sight struct {
	// Fence is the last one given out, 0 if none is known.
	Fence Fence
	Holds []SeenHold
	// Many says that there are more than MaxSeen holds, and none is in Holds.
	Many bool
	// Tracked says that the next change is told to who watches: NoticeChanged.
	Tracked bool
}

// MaxSeen is how many holds a Sight has at most.
const MaxSeen = 200

// SeenHold is a hold of a name. Each permit of another program is one.
type SeenHold struct {
	// ID tells the holds of a name apart.
	ID string
	// Fence is 0 if it is not known.
	Fence Fence
	// TTL is the remaining time, or NoTTL.
	TTL time.Duration
	// Foreign: another program holds it, which may give it back without a word.
	Foreign bool
	// Permit: it has permits. Their fence is not known, and the ID of lockd's own is that of PermitsOf.
	Permit bool
}

// PermitsOf is the ID of the permits of an owner in a Sight and in a Notice.
func PermitsOf(o Owner) string {
	sum := sha1.Sum([]byte(o)) //nolint:gosec // a name, and no secret
	return "permit " + hex.EncodeToString(sum[:12])
}

// Store keeps leases. It is declared here, by its only caller; memstore and redisstore implement it and package
// storetest is its contract.
//
// Methods make one attempt and do not wait for a lock. All are safe to repeat with the same arguments. An error is
// one of
//   - what the method says,
//   - ErrUnavailable: surely nothing was done,
//   - ErrOutcomeUnknown: it may have been done, may be done late, or not at all; the caller repeats, it does not guess,
//   - ErrKindMismatch: the name, or a key that belongs to it, is in use for something else; nothing was done,
//   - ErrStoreFull: the store refuses to store more; nothing was done.
//
// A cancelled ctx is ErrOutcomeUnknown unless the attempt was not begun.
type Store interface {
	// Acquire takes a name, or holds it once more. It returns a *HeldError if another owner is in the way or, for
	// Fair, waits before it; ErrNotHeld if Claim.Count > 1 and the owner does not hold it, ErrStale if it holds it with
	// another fence. For a semaphore it returns a *LimitError if another limit is kept, or none and none is claimed, and
	// ErrInvalid if more permits are claimed than there are.
	// A grant ends the owner's place.
	// Repeated: the same fence, the same count. Executed late: the name is held until its TTL passes unless it is
	// released after that, or the place is kept until its time passes unless it is left.
	Acquire(ctx context.Context, c Claim) (Grant, error)

	// AcquireAll takes several names, all or none, at one instant. The claims have different names, Count 1 and no
	// Place. A *HeldError names the first one in the way. Repeated: like Acquire, for each.
	AcquireAll(ctx context.Context, cs []Claim) ([]Grant, error)

	// Release gives a hold back, frees the name and tells the listeners, or hands it to Return.Next without telling
	// them. It returns ErrNotHeld if the owner does not hold it, ErrStale if it holds it with another fence. With
	// Remaining 0 the owner's place is given up in any case. For Read the last holds are given back; each has a lease of
	// its own, and an owner reads as long as the longest of those it has. If none of them lasts, it does not read any more.
	// Repeated: ErrNotHeld when it was freed; no error when it was counted down; the same fence when it was handed over and the successor still holds
	// it. Executed late: ErrNotHeld or ErrStale, nobody else's hold is touched.
	Release(ctx context.Context, r Return) (Returned, error)

	// Enlist keeps the places of fair waiters for so long from now. Owners that have no place get one behind all others,
	// in their order; but one that was taken for dead by others although its time had not passed gets one in front.
	// It returns for each how many are before it, or PlaceUnknown if it had its place already, or PlaceHolds if it is
	// the holder by now and needs no place.
	// Repeated: nothing changes but the time. Executed late: a place is kept until its time passes.
	Enlist(ctx context.Context, name string, owners []Owner, place time.Duration) ([]int, error)

	// Leave gives up the places of waiters of a Placed kind, and tells those for whom that makes room. It is no error
	// if there are none.
	Leave(ctx context.Context, name string, kind Kind, owners []Owner) error

	// Queue reads some of the fair waiters of a name, the next one first, whoever's they are.
	Queue(ctx context.Context, name string, from, size int) ([]Owner, error)

	// StartAcquire and StartRelease are Acquire and Release for the hot path. They return at once and tell the outcome
	// to done: exactly once, never before they return, in a goroutine that done must not block. They bound themselves.
	StartAcquire(c Claim, done func(Grant, error))
	StartRelease(r Return, done func(Returned, error))

	// Renew prolongs holds and calls done once for each, with its index, as soon as its outcome is known and
	// possibly at the same time as others, before Renew returns. The error given to done is nil, or a *GoneError if
	// the hold is not there. Renewing never brings a hold back. What other requests ask of the Store does not delay
	// it, unless TTL is 0.
	Renew(ctx context.Context, rs []Renewal, done func(i int, err error))

	// Extend is Renew for one hold, at the wish of a client. It shares its way to the Store with all other requests, so
	// that it takes nothing from renewals; only the Keeper calls Renew. If r.TTL is more than 0 it returns how long the hold
	// lasts from now on: more than r.TTL if it had more time left.
	Extend(ctx context.Context, r Renewal) (left time.Duration, err error)

	// Shorten is Extend, but the hold ends TTL from now also if it would have ended later, and those who wait hear that it is
	// worth another attempt. A read or write hold never takes time from others of the same name. It is never executed late:
	// when Shorten returned ErrOutcomeUnknown it was executed, or never will be.
	Shorten(ctx context.Context, r Renewal) error

	// StartExtend is to Extend what StartAcquire is to Acquire.
	StartExtend(r Renewal, done func(left time.Duration, err error))

	// ForceRelease frees a name whoever holds it, tells the listeners and all replicas, and says whether it was held.
	// Read frees no write hold; Write frees no readers but the writer itself, if it reads as well. All permits of a semaphore are returned; it keeps its limit.
	ForceRelease(ctx context.Context, name string, kind Kind) (bool, error)

	// SetLimit sets how many permits a semaphore has and returns how many it had, 0 if there was no limit. What is out
	// stays out, so that fewer than none may be left to be had. If permits can be had now that could not, listeners are told.
	// Repeated: nothing changes, and it returns the limit itself.
	SetLimit(ctx context.Context, name string, limit uint32) (previous uint32, err error)

	// Look reads the state of a name.
	Look(ctx context.Context, name string) (State, error)

	// Holders reads who holds a name, at most so many. Permits have no owners that could be read: none of a semaphore.
	Holders(ctx context.Context, name string, size int) ([]Holder, error)

	// List reads some of the names that are held and begin with prefix, in no order, from a cursor on. An empty next
	// cursor is the end. A page may be empty, and a name may come twice. A cursor it does not know is ErrInvalid.
	List(ctx context.Context, prefix, cursor string, size int) (page []State, next string, err error)

	// Listen calls notify for a name of a kind until stop is called. notify must not block and may be called at any
	// time, also shortly after stop. Listening never fails: while the store cannot be reached no NoticeListening comes.
	Listen(name string, kind Kind, notify func(Notice)) (stop func())

	// ListenTurn is Listen for what other programs tell one fair waiter only.
	ListenTurn(name string, o Owner, notify func(Notice)) (stop func())

	// Watch is Listen for who wants to hear of each end of a hold, of any kind: NoticeEnded comes once for each one that
	// somebody brought about. Nobody tells of a lease that runs out, and other programs may end a hold without a word;
	// a Sight shows that.
	Watch(name string, notify func(Notice)) (stop func())

	// See reads who holds a name.
	See(ctx context.Context, name string) (Sight, error)

	// ListenForced calls notify with each name that ForceRelease frees on any replica, and with "" after an
	// interruption.
	ListenForced(notify func(name string)) (stop func())

	// Probe asks whether the store can be reached. The identity changes when the server restarts.
	Probe(ctx context.Context) (identity string, err error)

	Peers
}

// Peers carries messages between the replicas that share a Store. A message is heard at most once, and by nobody while the
// connection is interrupted, so nothing may depend on it but what people look at.
type Peers interface {
	// Publish sends a message to all who are subscribed to a topic, and says how many those are.
	Publish(ctx context.Context, topic string, message []byte) (heard int, err error)
	// Subscribe calls notify with each message of a topic until stop is called. notify must not block, and must not change
	// the message.
	Subscribe(topic string, notify func(message []byte)) (stop func())
}

// What Enlist answers besides a position.
const (
	PlaceUnknown = -1
	PlaceHolds   = -2
)

// Keeper keeps leases alive and ends those that are lost. It is declared here, by its only caller; watchdog
// implements it. None of its methods blocks or calls back.
type Keeper interface {
	// Keep begins to keep a lease, or takes note that its validity, which is given, or its mode changed.
	Keep(l *Lease, until time.Time)
	// Drop ends that. A renewal in flight may still be told to the lease, which ignores it.
	Drop(l *Lease)
	// Hurry renews the leases after a delay instead of at their time.
	Hurry(ls []*Lease, delay time.Duration)
}
