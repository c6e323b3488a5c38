package session

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Event is something a session's stream must tell its client.
type Event interface {
	// texts are how many bytes its texts have, where they can be long.
	texts() int
}

// Hold names one hold of a session.
type Hold struct {
	Name   string
	Kind   lock.Kind
	Holder string
	Fence  lock.Fence
	// AcquiredBy is the request that took it first. A request that names the hold need not say it. Its owner in the store
	// is "<session>:<holder>#<request>".
	AcquiredBy uint64
}

// Validity says until when a lease can be trusted, and which sign of life of the client the server had last.
type Validity struct {
	Until    time.Time
	Anchor   uint64
	AnchorAt time.Time
	Most     bool // until the end of its max_hold
}

// HeldLock is a lock that a session holds.
type HeldLock struct {
	Hold     Hold
	Validity Validity
	Count    uint32
	Auto     bool
	Permits  uint32    // of a semaphore
	Most     time.Time // no validity is later; zero if there is no such bound
	// MaxHold is what is left until then, as a client says that resumes; nil if there is no bound.
	MaxHold *time.Duration
	// Age and Annotation are what a client that resumes says of a hold, for people; they are not told.
	Age        time.Duration
	Annotation string
}

// LockInfo is what the store knows of a name, and what this replica adds of its own holder and waiters.
type LockInfo struct {
	lock.State
	Client     string
	Annotation string
	Waiters    int
}

// InTheWay is who holds a lock that a request wants, for people. What is not known is zero.
type InTheWay struct {
	Name   string // of several names, the one in the way
	HeldBy lock.Owner
	// Client and Annotation are what the holder says of itself, Peer is where it comes from.
	Client, Annotation, Peer string
	HeldFor                  time.Duration
}

// The answers to requests; ID is the request's.
type (
	// Granted: the lock is held, and More are if more were asked for.
	Granted struct {
		ID       uint64
		Hold     Hold
		More     []Hold
		Validity Validity
		Count    uint32
		Auto     bool
		Most     time.Time // no validity is later; zero if there is no such bound
	}
	// NotGranted: the lock is not held. Cause is ErrHeld, ErrTimedOut or ErrCancelled.
	NotGranted struct {
		ID         uint64
		Cause      error
		RetryAfter time.Duration // 0 if not known
		InTheWay
	}
	// Queued: the request waits. It may be told again, with another position.
	Queued struct {
		ID       uint64
		Position int
		By       *InTheWay // if it wants to know; with no HeldBy if nobody is known
	}
	// Released: one hold was released. Validity is that of what remains, if anything does.
	Released struct {
		ID        uint64
		Remaining uint32
		Validity  Validity
	}
	// Extended: the lease was changed. Validity has its end now.
	Extended struct {
		ID       uint64
		Validity Validity
	}
	// Looked: what is known of a name.
	Looked struct {
		ID   uint64
		Lock LockInfo
	}
	// HoldList: what the session holds. Next is empty at the end.
	HoldList struct {
		ID    uint64
		Locks []HeldLock
		Next  string
	}
	// LimitSet: a semaphore has another limit.
	LimitSet struct {
		ID       uint64
		Name     string
		Previous uint32
	}
	// Done: nothing more to tell.
	Done struct{ ID uint64 }
	// Failed: the request was not carried out, or nobody knows.
	Failed struct {
		ID  uint64
		Err error
	}
	// HeartbeatAck: the client was heard. ID may be 0. Until is zero if the session has no auto lease.
	HeartbeatAck struct {
		ID     uint64
		SentID uint64
		Until  time.Time
	}
)

// Forced says who released a name, or ended a session, by force, and why.
type Forced struct {
	Identity string `json:"identity,omitempty"` // the name in the clients file, if there is one: only this is verified
	By       string `json:"by,omitempty"`
	Why      string `json:"why,omitempty"`
}

// Who is who did it: the verified name, and then what it says of itself.
func (f Forced) Who() string {
	switch {
	case f.Identity == "":
		return f.By
	case f.By == "":
		return f.Identity
	}
	return f.Identity + " (" + f.By + ")"
}

// The pushes.
type (
	// Lost: a hold ended without being released.
	Lost struct {
		Hold   Hold
		Reason lock.LostReason
		Forced // with lock.LostForced, if it is known
	}
	// AtRisk: the store cannot be reached.
	AtRisk struct{ Validity Validity }
	// Safe: AtRisk is over.
	Safe struct{}
	// Unlocked: a hold of a watched name ended.
	Unlocked struct {
		Name  string
		Cause lock.EndCause
		Fence lock.Fence // 0 if it is not known
		Hold  string     // the ID of permits, empty for others
		// Merged is how many earlier ends are told by this event as well.
		Merged uint32
	}
	// Unwatched: a name is watched no more. Err is why.
	Unwatched struct {
		Name string
		Err  error
	}
	// Draining: the client should move within this time.
	Draining struct{ Within time.Duration }
)

func (h Hold) texts() int { return len(h.Name) + len(h.Holder) }

func (e Granted) texts() int {
	n := e.Hold.texts()
	for _, h := range e.More {
		n += eventBytes + h.texts()
	}
	return n
}

func (e HoldList) texts() (n int) {
	for _, l := range e.Locks {
		n += eventBytes + l.Hold.texts()
	}
	return n
}

// Known says whether more is known than the owner.
func (i *InTheWay) Known() bool { return i.Client != "" || i.Peer != "" }

func (i *InTheWay) texts() int {
	return len(i.Name) + len(i.HeldBy) + len(i.Client) + len(i.Annotation) + len(i.Peer)
}

func (e NotGranted) texts() int { return e.InTheWay.texts() }

func (e Queued) texts() int {
	if e.By == nil {
		return 0
	}
	return e.By.texts()
}

func (e Looked) texts() int { return len(e.Lock.Name) + len(e.Lock.Owner) + len(e.Lock.Annotation) }

func (e Lost) texts() int       { return e.Hold.texts() + len(e.Forced.Identity) + len(e.By) + len(e.Why) }
func (e Unlocked) texts() int   { return len(e.Name) + len(e.Hold) }
func (e Unwatched) texts() int  { return len(e.Name) }
func (Released) texts() int     { return 0 }
func (Extended) texts() int     { return 0 }
func (LimitSet) texts() int     { return 0 }
func (Done) texts() int         { return 0 }
func (Failed) texts() int       { return 0 }
func (HeartbeatAck) texts() int { return 0 }
func (AtRisk) texts() int       { return 0 }
func (Safe) texts() int         { return 0 }
func (Draining) texts() int     { return 0 }
