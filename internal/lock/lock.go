// Package lock has the words of lockd: what a lock is, what is asked of a store, and what it answers.
//
// # What it promises
//
// It decides nothing and does nothing. The stores implement Store, the broker calls it, and neither knows the other:
// both know these words. Package storetest is the contract of a Store as tests.
//
// # What it does not promise
//
// What clients see is in the protocol, not here.
package lock

import (
	"cmp"
	"crypto/sha1" //nolint:gosec // a name, and no secret
	"encoding/hex"
	"strings"
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

// kindNames are the names of all kinds in logs and metrics. 0 is no kind.
var kindNames = [...]string{
	"unknown", Exclusive: "exclusive", Fair: "fair", Read: "read", Write: "write", Semaphore: "semaphore",
}

// KindNumbers is the length of an array that is indexed by kind: the number of the last one plus 1.
const KindNumbers = Kind(len(kindNames))

// Kinds are all kinds.
func Kinds() (all []Kind) {
	for k := Exclusive; k < KindNumbers; k++ {
		all = append(all, k)
	}
	return all
}

// Valid says whether there is such a kind.
func (k Kind) Valid() bool { return 0 < k && k < KindNumbers }

// String is the kind's name in logs and metrics.
func (k Kind) String() string {
	if !k.Valid() {
		k = 0
	}
	return kindNames[k]
}

// Shared says whether several owners can hold a name of this kind at once.
func (k Kind) Shared() bool { return k == Read || k == Semaphore }

// Placed says whether a waiter for a name of this kind keeps a place in the Store.
func (k Kind) Placed() bool { return k == Fair || k == Write }

// Owner is who holds a name in the Store: "<session uuid>:<holder>#<request>", with an empty holder if the request is
// its own holder. Each request has an owner of its own, so nothing done late for one can hit the hold of another. A
// unary lease has "<uuid>:unary", which all calls with its lease id share.
type Owner string

// Tenant is for whom work without a session is counted: the address of a client, or its name if there is a clients
// file.
type Tenant string

// Unary is the tenant of unary calls in the store, where each session has a share of its own.
func (t Tenant) Unary() string { return UnarySuffix + " " + string(t) }

// UnarySuffix ends the owners of leases without a session.
const UnarySuffix = ":unary"

// Repeats says whether the owner may ask again, at any replica, for a hold that it was granted. A caller without a
// session does so when its answer was lost. A request of a session asks only until it is granted.
func (o Owner) Repeats() bool { return strings.HasSuffix(string(o), UnarySuffix) }

// For is whose share of the Store a call for the owner uses: that of tenant, or of Tenant if tenant is empty.
func (o Owner) For(tenant string) string { return cmp.Or(tenant, o.Tenant()) }

// Tenant is whose share a call for the owner uses if it names no tenant: its session, or UnarySuffix for all unary
// leases.
func (o Owner) Tenant() string {
	if strings.HasSuffix(string(o), UnarySuffix) {
		return UnarySuffix
	}
	session, _, _ := strings.Cut(string(o), ":")
	return session
}

// Fence is the token of a grant. Later grants of a name have greater ones.
type Fence uint64

// NoTTL stands for the remaining time of a hold that another program took without a TTL.
const NoTTL time.Duration = -1

const (
	// MaxPermits bounds the permits of one request, over all of its names: the script that takes them costs Redis about
	// 2 µs for each, and nobody else is served meanwhile.
	MaxPermits = 1000
	// MaxHolds bounds how often one holder holds a lock.
	MaxHolds = 100
)

// Drift is by how much two clocks may differ when they measure d: they may drift apart by 1 %, and a store counts in
// milliseconds.
func Drift(d time.Duration) time.Duration { return d/100 + 2*time.Millisecond }

// Weight is what it costs a store to renew or verify a hold with this number of permits, in exclusive holds.
func Weight(k Kind, permits uint32) int {
	switch k {
	case Read, Write, Semaphore:
		return max(2, int(permits))
	default:
		return 1
	}
}

// PermitsOf is the ID of the permits of an owner in a Seen and in a Notice.
func PermitsOf(o Owner) string {
	sum := sha1.Sum([]byte(o)) //nolint:gosec // a name, and no secret
	return "permit " + hex.EncodeToString(sum[:12])
}
