package client

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// WithFailOnDeadlock has Lock return a *DeadlockError when it waits in a deadlock and is the youngest request of those
// that may fail. The caller keeps what it holds, and should release that so that the others go on. The server only
// finds deadlocks of callers that it can tell apart, see Actor.
func WithFailOnDeadlock() Option {
	return func(s *settings) { s.open.Deadlock = lockdv1.DeadlockPolicy_DEADLOCK_POLICY_FAIL }
}

// WithActor names one actor for all requests of this Client, see Actor.
func WithActor(id string) Option { return func(s *settings) { s.open.Actor = id } }

// Actor names the thread of work that asks, so that the server finds deadlocks. That thread does nothing else while its
// Lock waits. Several Clients, also of several programs that work for each other, may use the same id, but not at the
// same time: the server would then report deadlocks that do not exist. NewActor makes an id. Without Actor a named
// Holder of a Client is an actor; a Lock with neither is in no deadlock that is found. Locks of a session that went on
// elsewhere are known by their Holder and by WithActor only.
func Actor(id string) LockOption { return func(r *request) { r.acquire.Actor = id } }

// actorBytes is how long the id of an actor may be.
const actorBytes = 128

// NewActor makes an id for Actor or WithActor that nobody else has.
func NewActor() string { return rand.Text() }

// DeadlockError is ErrDeadlock with the circle of those who wait for each other.
type DeadlockError struct {
	// Members are the requests. Each waits for what the next one holds, and the last one for what the first one holds. The
	// youngest request is the first one.
	Members []DeadlockMember
	// Omitted is how many more there are after those.
	Omitted int
}

// DeadlockMember is a request that waits in a deadlock.
type DeadlockMember struct {
	// Name is what it waits for, HeldBy who holds that, and Fence is the fence of that hold, 0 for permits.
	Name   string
	Kind   Kind
	HeldBy string
	Fence  uint64
	// Session, Client, Address, Replica and Annotation are those of the request.
	Session, Client, Address, Replica, Annotation string
	// Age is for how long it has waited.
	Age time.Duration
}

func (e *DeadlockError) Error() string {
	var who []string
	for _, m := range e.Members {
		who = append(who, fmt.Sprintf("%s waits for %s", shown(m.Client), quoted(m.Name)))
	}
	if e.Omitted > 0 {
		who = append(who, fmt.Sprintf("and %d more", e.Omitted))
	}
	return fmt.Sprintf("%v: %s", ErrDeadlock, strings.Join(who, "; "))
}

// Unwrap makes it ErrDeadlock.
func (e *DeadlockError) Unwrap() error { return ErrDeadlock }

func deadlockOf(circle *lockdv1.Deadlock) *DeadlockError {
	e := &DeadlockError{Omitted: int(circle.GetOmitted())}
	for _, m := range circle.GetMembers() {
		e.Members = append(e.Members, DeadlockMember{
			Name: m.GetName(), Kind: Kind(m.GetKind()), HeldBy: m.GetHeldBy(), Fence: m.GetFence(), Session: m.GetSessionId(),
			Client: m.GetClientName(), Address: m.GetPeer(), Replica: m.GetReplica(), Annotation: m.GetAnnotation(),
			Age: m.GetAge().AsDuration(),
		})
	}
	return e
}
