package inspect

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Session describes a session.
type Session struct {
	ID     string
	Client session.Client
	// Replica serves it; empty for this one.
	Replica string
	session.Info
}

// Origin says by which program a lock was taken.
type Origin uint8

// The origins.
const (
	// OriginSession: a session of lockd.
	OriginSession Origin = iota + 1
	// OriginUnary: a unary call of lockd.
	OriginUnary
	// OriginOther: another program on the same store.
	OriginOther
	// OriginRedisson: one whose owners look like Redisson's.
	OriginRedisson
)

// Holder describes a hold of a name, whoever's it is. What nobody knows is zero.
type Holder struct {
	Owner      lock.Owner     `json:"owner"`
	Origin     Origin         `json:"origin"`
	Kind       lock.Kind      `json:"kind"`
	Session    string         `json:"session,omitempty"`
	Client     session.Client `json:"client"`
	Replica    string         `json:"replica,omitempty"`
	Age        time.Duration  `json:"age"`
	TTL        time.Duration  `json:"ttl"` // or NoTTL
	Auto       bool           `json:"auto,omitempty"`
	Fence      lock.Fence     `json:"fence,omitempty"`
	Count      uint32         `json:"count"`
	Permits    uint32         `json:"permits,omitempty"`
	Annotation string         `json:"annotation,omitempty"`
	ActorMark  string         `json:"actor_mark,omitempty"` // see MarkOf

	since time.Time
}

// Inspection is what is known of a name, by the store and by all replicas.
type Inspection struct {
	Lock    session.LockInfo
	Holders []Holder
	Waiters []Waiter
	// Answered is how many of the replicas that were Asked answered, this one included. What the others know is
	// missing.
	Asking
}

// Waiter describes a request that waits. What nobody knows is zero: if its replica does not answer, only its owner and
// position are known, and only for a fair lock.
type Waiter struct {
	Name       string        `json:"name"`
	Kind       lock.Kind     `json:"kind"`
	Owner      lock.Owner    `json:"owner"`
	Session    string        `json:"session,omitempty"` // empty for a unary call
	Client     string        `json:"client,omitempty"`
	Peer       string        `json:"peer,omitempty"`
	Identity   string        `json:"identity,omitempty"` // its name in the clients file
	Replica    string        `json:"replica,omitempty"`
	Annotation string        `json:"annotation,omitempty"`
	ActorMark  string        `json:"actor_mark,omitempty"`
	Position   int           `json:"position"`
	Age        time.Duration `json:"age"`
	TimeLeft   time.Duration `json:"time_left,omitempty"` // 0: it waits for ever
}

// MarkOf is a mark that tells an actor from others without its name: whoever knows the name can ask as that actor.
func MarkOf(actor string) string {
	if actor == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("lockd actor " + actor))
	return hex.EncodeToString(sum[:8])
}

// ownerOfSession is what owners of sessions look like, see lock.Owner. Redisson's have no '#'.
var ownerOfSession = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:.*#[0-9]+$`)

// ownerOfRedisson is what owners of Redisson look like: a UUID and the id of a thread.
var ownerOfRedisson = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9]+$`)

// originOf tells by an owner alone which program's it is.
func originOf(o lock.Owner) Origin {
	switch {
	case ownerOfSession.MatchString(string(o)):
		return OriginSession
	case strings.HasSuffix(string(o), lock.UnarySuffix):
		return OriginUnary
	case ownerOfRedisson.MatchString(string(o)):
		return OriginRedisson
	default:
		return OriginOther
	}
}

// sessionOf is the session of an owner, empty if no session is the owner's.
func sessionOf(o lock.Owner) string {
	if originOf(o) != OriginSession {
		return ""
	}
	id, _, _ := strings.Cut(string(o), ":")
	return id
}
