package redlock

import (
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// idSize is the length of the id of one of Redisson's clients.
const idSize = 36

// kin is an owner as all members have it. Redisson has a client for each member, and each has an id of its own; the
// thread that holds is the same: "<id>:<thread>". So two programs may be taken for one, but not at one member.
func kin(o lock.Owner) lock.Owner {
	id, thread, found := strings.Cut(string(o), ":")
	if !found || len(id) != idSize || strings.Contains(thread, "#") || o.Repeats() {
		return o
	}
	return lock.Owner(":" + thread)
}

// kinHold is the ID of a hold as all members have it. Readers may be two of a kin at one member.
func kinHold(h lock.SeenHold) string {
	kind, owner, _ := strings.Cut(h.ID, " ")
	if !h.Foreign || h.Permit || kind == "read" {
		return h.ID
	}
	return kind + " " + string(kin(lock.Owner(owner)))
}
