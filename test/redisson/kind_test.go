package redisson

import (
	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// kind is a kind of lock as both sides call it.
type kind struct {
	name string // for the agent
	opts []client.LockOption
}

func (k kind) String() string { return k.name }

// with is the kind with more options for lockd.
func (k kind) with(opts ...client.LockOption) kind {
	return kind{name: k.name, opts: append(opts, k.opts...)}
}

var (
	plain     = kind{name: "lock"}
	fenced    = kind{name: "fenced"}
	fair      = kind{name: "fair", opts: []client.LockOption{client.As(client.Fair)}}
	read      = kind{name: "read", opts: []client.LockOption{client.As(client.Read)}}
	write     = kind{name: "write", opts: []client.LockOption{client.As(client.Write)}}
	semaphore = kind{name: "semaphore", opts: []client.LockOption{client.Permits(1, 1)}} // a lock with one permit
)

// kinds are all of them.
var kinds = []kind{plain, fenced, fair, read, write, semaphore}

// pair is a kind to hold and one that has to wait meanwhile.
type pair struct{ holder, waiter kind }

var pairs = []pair{
	{plain, plain},
	{fenced, fenced},
	{fair, fair},
	{write, read},
	{read, write},
	{write, write},
	{semaphore, semaphore},
}

func (p pair) String() string {
	if p.holder.name == p.waiter.name {
		return p.holder.name
	}
	return p.waiter.name + "-after-" + p.holder.name
}

// mortal is the lease with which Redisson takes a lock whose holder is going to be killed: 0 where its watchdog would
// stop.
func (k kind) mortal() int64 {
	if k.name == "semaphore" {
		return short.Milliseconds()
	}
	return 0
}

// prepare gives a name what it needs before it can be used as that kind.
func (s *stage) prepare(k kind, name string) {
	s.t.Helper()
	if k.name == "semaphore" {
		s.theirs(name, 1)
	}
}

// proto is the kind in lockd's protocol.
func (k kind) proto() lockdv1.LockKind {
	switch k.name {
	case "fair":
		return lockdv1.LockKind_LOCK_KIND_FAIR
	case "read":
		return lockdv1.LockKind_LOCK_KIND_READ
	case "write":
		return lockdv1.LockKind_LOCK_KIND_WRITE
	case "semaphore":
		return lockdv1.LockKind_LOCK_KIND_SEMAPHORE
	}
	return lockdv1.LockKind_LOCK_KIND_EXCLUSIVE
}

// rival is the kind that has to wait while this one is held.
func (k kind) rival() kind {
	if k.name == "read" {
		return write
	}
	return k
}
