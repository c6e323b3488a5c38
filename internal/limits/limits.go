// Package limits has the bounds of what clients may ask for and have at a time, and enforces them.
//
// # What it promises
//
// Each bound has one definition. What an operator can set is a field of Limits or Session, with its key, its default
// and what it bounds. What nobody can set is in fixed.go, and what work costs in prices.go. The configuration, what
// clients are told in Opened, and whoever refuses take their numbers from here. Bounds of what arrives before it is a
// request stand where they are kept: of connections in app, of messages in inbound, of questions in peers.
//
// Slots and a Quota never admit more at a time than their bound. Tenants counts what the clients of each tenant have:
// there are never more unary calls than Limits says, nor more sessions with a client, together with streams that may
// become sessions. As many sessions again may wait for their clients to come back. No tenant makes lockd work for more
// than its share without using the store (work.go), and none uses more new names in an hour than Limits says
// (names.go). With a clients file each of its clients is a tenant, with bounds of its own (allowance.go).
//
// # What it does not promise
//
// Without a clients file a tenant is an address, and an address is not a client: many can stand behind one proxy, and
// one can have many addresses.
package limits

import (
	"net"
	"net/netip"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Limits are the bounds that an operator can set. The tags have the key in the configuration, its default and its
// range. 0 for something that is counted by address is no bound.
type Limits struct {
	NameBytes       int `key:"name_bytes" default:"512" min:"1"`
	HolderBytes     int `key:"holder_bytes" default:"128" min:"1"`
	AnnotationBytes int `key:"annotation_bytes" default:"4096" min:"0"`
	FrameBytes      int `key:"frame_bytes" default:"1048576" max:"2147483647"` // of one message

	LocksPerSession   int `key:"locks_per_session" default:"10000" min:"1"`   // held or asked for
	WaitersPerSession int `key:"waiters_per_session" default:"10000" min:"1"` // requests that wait
	WatchesPerSession int `key:"watches_per_session" default:"10000" min:"0"`
	QueueLength       int `key:"queue_length" default:"100000" min:"1"` // waiters of one name on this replica
	NamesPerAcquire   int `key:"names_per_acquire" default:"64" min:"1"`

	Sessions           int `key:"sessions" default:"100000" min:"1"` // on this replica
	SessionsPerAddress int `key:"sessions_per_address" default:"10000" min:"0"`
	LocksPerAddress    int `key:"locks_per_address" default:"100000" min:"0"`  // of sessions, see RenewalLoad
	WatchesPerAddress  int `key:"watches_per_address" default:"20000" min:"0"` // of sessions
	CallsPerAddress    int `key:"calls_per_address" default:"64" min:"0"`      // unary ones, at the store at a time
	WaitsPerAddress    int `key:"waits_per_address" default:"1000" min:"0"`    // unary ones that may wait for a lock
	NamesPerAddress    int `key:"names_per_address" default:"1000000" min:"0"` // not used lately, in an hour

	MinLease time.Duration `key:"min_lease" default:"100ms" min:"1ns"`
	MaxLease time.Duration `key:"max_lease" default:"24h"`
	MaxWait  time.Duration `key:"max_wait" default:"168h" min:"1ns"`
}

// Session is how long a session outlives its client's last sign of life: TTL, unless the client asks for another time
// from MinTTL to MaxTTL.
type Session struct {
	TTL    time.Duration `key:"ttl" default:"30s"`
	MinTTL time.Duration `key:"min_ttl" default:"1s" min:"100ms"`
	MaxTTL time.Duration `key:"max_ttl" default:"10m"`
	// at this age of each of its streams its client is asked to open another one; 0 = never
	MaxStreamAge time.Duration `key:"max_stream_age" default:"0s" min:"0s"`
}

// Check tells what is wrong with keys that must fit together.
func (s Session) Check(unless func(ok bool, format string, args ...any)) {
	unless(s.MinTTL <= s.MaxTTL,
		"session.max_ttl: is %v, must not be shorter than session.min_ttl (%v)", s.MaxTTL, s.MinTTL)
	unless(s.MinTTL <= s.TTL && s.TTL <= s.MaxTTL,
		"session.ttl: is %v, must be from session.min_ttl (%v) to session.max_ttl (%v)", s.TTL, s.MinTTL, s.MaxTTL)
	unless(s.MaxStreamAge == 0 || s.MaxStreamAge >= time.Second, // to move costs more than to stay
		"session.max_stream_age: is %v, must be 0, for no limit, or at least 1s", s.MaxStreamAge)
}

const frameRest = 1024 // bytes that a request needs in its frame besides its name, holder and annotation

// Check tells what is wrong with keys that must fit together.
func (l Limits) Check(unless func(ok bool, format string, args ...any)) {
	unless(l.MinLease <= l.MaxLease,
		"limits.max_lease: is %v, must not be shorter than limits.min_lease (%v)", l.MaxLease, l.MinLease)
	needed := frameRest + float64(l.NameBytes) + float64(l.HolderBytes) + float64(l.AnnotationBytes) // cannot overflow
	unless(needed <= float64(l.FrameBytes),
		"limits.frame_bytes: is %d, must leave %d bytes besides a name, a holder and an annotation", l.FrameBytes, frameRest)
}

// TenantAt is the tenant of a connection from an address. All connections without an address are one tenant.
func TenantAt(a net.Addr) lock.Tenant {
	if a == nil {
		return ""
	}
	return TenantOf(a.String())
}

// Denied counts a refusal and returns its error, which says that the limit of a subject is reached.
type Denied func(subject string, limit int) error

// TenantOf is the tenant of a client at a network address: an IPv4 address, or the first 64 bits of an IPv6 address,
// because a host chooses the others as it likes. Peers without an address are one tenant.
func TenantOf(peer string) lock.Tenant {
	p, err := netip.ParseAddrPort(peer)
	if err != nil {
		return ""
	}
	a := p.Addr().Unmap().WithZone("")
	if a.Is6() {
		network, _ := a.Prefix(64) // never fails: it has 128 bits
		a = network.Addr()
	}
	return lock.Tenant(a.String())
}
