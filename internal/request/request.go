package request

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Acquire asks for a lock, or for all of several or none.
type Acquire struct {
	Name       string
	Kind       lock.Kind
	Permits    uint32         // of a semaphore; 0 is 1
	Limit      uint32         // of a semaphore; 0 is whatever was set
	More       []Item         // further locks, with other names
	List       List           // how the client named them
	Holder     string         // empty: the request is its own holder
	Wait       *time.Duration // nil: for ever; 0: try once
	Lease      *time.Duration // nil: auto
	MaxHold    *time.Duration // of an auto lease; nil: no bound
	Annotation string
	Actor      string // who asks, to find deadlocks; empty: not said
	// Traceparent is the span that asks, as W3C's header has it. Nobody has checked it. Empty: not said.
	Traceparent string
	// TellHolder has the client told who is in the way while the request waits.
	TellHolder bool
	// Waited is for how long the same request has waited elsewhere, as its client says; for people only.
	Waited time.Duration
	// InsteadOf are the ids, rising, that the same request had before its session came here; none if it is new.
	InsteadOf []uint64
}

// List is the field by which a client names several locks.
type List string

// The lists. The locks of Names differ in their names only.
const (
	NoList List = ""
	Names  List = "names"
	Items  List = "items"
)

// Within is an error of the i-th lock of the list, with the path to its field.
func (l List) Within(i int, err error) error {
	invalid, ok := errors.AsType[*lock.InvalidError](err)
	switch {
	case !ok || l == NoList || invalid.Field == "holder":
		return err
	case l == Names && invalid.Field != "name":
		return err
	}
	inner := *invalid
	inner.Field = fmt.Sprintf("%s[%d]", l, i)
	if l == Items {
		inner.Field += "." + invalid.Field
	}
	return &inner
}

// Item is one of several locks.
type Item struct {
	Name           string
	Kind           lock.Kind
	Permits, Limit uint32 // as in Acquire
}

// Release asks to end a hold, or to keep only some of its permits.
type Release struct {
	Hold session.Hold
	Keep uint32 // 0: none
}

// Extend asks that a lease ends at another time, or is renewed.
type Extend struct {
	Hold session.Hold
	// Lease makes the lease a fixed one of this length from now on; nil makes it an auto lease.
	Lease *time.Duration
	// MayShorten says that the lease may end earlier than it would have.
	MayShorten bool
}

// SetLimit asks for a limit of a semaphore.
type SetLimit struct {
	Tenant lock.Tenant
	Name   string
	Limit  uint32
	By     session.Client // who asks, for people
}

// Once asks for a unary lease, or to extend or release one.
type Once struct {
	Tenant lock.Tenant
	// Identity is who calls, and owns the lease; nil if everybody may do everything.
	Identity session.Identity
	Name     string
	Kind     lock.Kind
	LeaseID  string        // of a new one: chosen by a caller that wants to repeat safely; empty: the broker chooses
	Lease    time.Duration // from now

	// Of a new lease.
	Permits    uint32         // of a semaphore; 0 is 1
	Limit      uint32         // of a semaphore; 0 is whatever was set
	Wait       *time.Duration // nil or 0: try once
	Client     string
	Peer       string // where the call comes from, for people
	Annotation string

	MayShorten bool   // an extended lease may end earlier than it would have
	Keep       uint32 // how many permits of a released one are kept
}

// Share is whose share of the store the call uses: the client's, or that of all unary calls of its address.
func (o Once) Share() string {
	if o.Identity != nil {
		return string(o.Tenant)
	}
	return o.Tenant.Unary()
}

// Request is one request of a message: to acquire, to release, to extend, or one that is refused because it could not
// be read.
type Request struct {
	ID      uint64
	Verb    Verb
	Acquire Acquire // of VerbAcquire
	Release Release // of VerbRelease
	Extend  Extend  // of VerbExtend
	Err     error   // of VerbRefuse
}

// Verb is what a Request asks for.
type Verb uint8

// The verbs.
const (
	VerbAcquire Verb = iota
	VerbRelease
	VerbExtend
	VerbRefuse
)

// PermitsOf is how many permits a request for n means: 1 at least for a semaphore, 0 for any other kind.
func PermitsOf(k lock.Kind, n uint32) uint32 {
	if k == lock.Semaphore {
		return max(n, 1)
	}
	return 0
}
