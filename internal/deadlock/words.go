package deadlock

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Wait is a request that waits. Owner is its id: no other request ever has it.
type Wait struct {
	Actor string        `json:"a"`
	Owner lock.Owner    `json:"o"`
	Wants []Want        `json:"w"` // all of them at once
	Age   time.Duration `json:"t"`
	About *About        `json:"i,omitempty"` // if its actor was asked for
}

// Want is one lock that a request waits for.
type Want struct {
	Name    string    `json:"n"`
	Kind    lock.Kind `json:"k"`
	Permits uint32    `json:"p,omitempty"`
}

// About is what people want to know of a request.
type About struct {
	Session    string        `json:"session"`
	Client     string        `json:"client,omitempty"`
	Peer       string        `json:"peer,omitempty"`
	Replica    string        `json:"replica,omitempty"`
	Annotation string        `json:"annotation,omitempty"`
	TimeLeft   time.Duration `json:"left,omitempty"` // 0: it waits for ever
	Fails      bool          `json:"fails,omitempty"`
}

// Hold is a hold of an actor.
type Hold struct {
	Actor   string     `json:"a"`
	Name    string     `json:"n"`
	Kind    lock.Kind  `json:"k"`
	Owner   lock.Owner `json:"o"`
	Fence   lock.Fence `json:"f,omitempty"`
	Permits uint32     `json:"p,omitempty"`
}

// Member is a request in a Deadlock, and what is in its way.
type Member struct {
	Owner lock.Owner    `json:"owner"`
	Want  Want          `json:"want"`
	Age   time.Duration `json:"age"`
	About About         `json:"about"`
	// HeldBy is in the way: a hold of the actor of the next member.
	HeldBy lock.Owner `json:"held_by"`
	Fence  lock.Fence `json:"fence,omitempty"`
}

// Deadlock is a circle of requests: each waits for what the next one holds, and the last one for what the first one
// holds. The first one is the youngest.
type Deadlock struct {
	Members []Member `json:"members"`
	Omitted int      `json:"omitted,omitempty"` // members, after these
	// Victim is the youngest one whose session wants its request to fail; empty if none does.
	Victim lock.Owner `json:"victim,omitempty"`
}

// MarshalLogArray writes the members into a log line.
func (d Deadlock) MarshalLogArray(to zapcore.ArrayEncoder) error {
	for _, m := range d.Members {
		to.AppendString(fmt.Sprintf("%s (%s at %s) waits for %q, held by %s", m.Owner, m.About.Client, m.About.Replica,
			m.Want.Name, m.HeldBy))
	}
	return nil
}

// ErrDeadlock: a request waits in a circle. Inside of an *Error.
var ErrDeadlock = session.ErrDeadlock

// Error is ErrDeadlock with the circle.
type Error struct{ Deadlock Deadlock }

func (e *Error) Error() string {
	var names []string
	for _, m := range e.Deadlock.Members {
		names = append(names, m.Want.Name)
	}
	return fmt.Sprintf("%v: %s", ErrDeadlock, strings.Join(names, ", "))
}

// Unwrap makes it ErrDeadlock.
func (e *Error) Unwrap() error { return ErrDeadlock }

// Question asks a replica.
type Question struct {
	// Waits asks for the requests that wait, the longest waiting first: of these actors, or of all.
	Waits  bool     `json:"waits,omitempty"`
	Actors []string `json:"actors,omitempty"`
	// Names asks who holds these.
	Names []string `json:"names,omitempty"`
	// Found tells what was found.
	Found []Deadlock `json:"found,omitempty"`
}

// Answer is what a replica knows.
type Answer struct {
	Waits []Wait `json:"waits,omitempty"`
	Holds []Hold `json:"holds,omitempty"`
	// Cut says that these actors have more requests that wait.
	Cut bool `json:"cut,omitempty"`
}
