package redlock

import (
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// idSize is the length of the id of one of Redisson's clients.
const idSize = 36

// commonOwner is what is common to an owner's names at all members. Redisson has a client for each member, each with an
// id of its own, but the thread is the same: its owners are "<id>:<thread>". So two programs may be taken for one, but
// not at one member.
func commonOwner(o lock.Owner) lock.Owner {
	id, thread, found := strings.Cut(string(o), ":")
	if !found || len(id) != idSize || strings.Contains(thread, "#") || o.Repeats() {
		return o
	}
	return lock.Owner(":" + thread)
}

// commonHoldID is what is common to a hold's IDs at all members. IDs of readers stay, because two readers with one
// common owner may be at one member.
func commonHoldID(h lock.SeenHold) string {
	kind, owner, _ := strings.Cut(h.ID, " ")
	if !h.Foreign || h.Permit || kind == "read" {
		return h.ID
	}
	return kind + " " + string(commonOwner(lock.Owner(owner)))
}
