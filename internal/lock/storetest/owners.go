package storetest

import (
	"encoding/hex"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// uuidBytes is how many bytes of a name a UUID has room for.
const uuidBytes = 16

// Full is the owner for a short name such as "a" or "s:#1", because a Store over Redis takes only texts that begin with
// a UUID for owners. It writes the session, the part before the first colon or all, as a UUID. UUIDs are in the order
// of the names.
func Full(o lock.Owner) lock.Owner {
	if o == "" {
		return ""
	}
	session, rest, whole := strings.Cut(string(o), ":")
	if len(session) >= uuidBytes {
		return o // it is one already, or meant to be none
	}
	var b [uuidBytes]byte
	copy(b[:], session)
	if !whole {
		b[uuidBytes-1] = 1
	}
	h := hex.EncodeToString(b[:])
	return lock.Owner(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + ":" + rest)
}

func fulls(short ...lock.Owner) []lock.Owner {
	full := make([]lock.Owner, len(short))
	for i, o := range short {
		full[i] = Full(o)
	}
	return full
}
