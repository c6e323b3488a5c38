package client

import (
	"strconv"
	"strings"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Kind says how a name is locked. A name is used with one kind at a time; Read and Write go together.
type Kind int32

// The kinds. A server that lacks one answers ErrUnsupported.
const (
	// Exclusive has one holder. It is the default.
	Exclusive = Kind(lockdv1.LockKind_LOCK_KIND_EXCLUSIVE)
	// Fair has one holder, in strict order of arrival over all replicas of the server and all other programs that share
	// its store.
	Fair = Kind(lockdv1.LockKind_LOCK_KIND_FAIR)
	// Read is shared with other readers, never with a writer, except that a named Holder who has the Write lock may
	// read as well.
	Read = Kind(lockdv1.LockKind_LOCK_KIND_READ)
	// Write is shared with nobody. A named Holder who only reads gets ErrUpgrade: it would wait for itself.
	Write = Kind(lockdv1.LockKind_LOCK_KIND_WRITE)
	// Semaphore is one permit, or with the option Permits several, of a name that has a limited number of them. Each Lock
	// is a holder of its own: the option Holder is ErrInvalid.
	Semaphore = Kind(lockdv1.LockKind_LOCK_KIND_SEMAPHORE)
)

// kindPrefix begins the names of kinds in the protocol.
const kindPrefix = "LOCK_KIND_"

// String is the kind's name, as lockctl spells it.
func (k Kind) String() string {
	if name, ok := lockdv1.LockKind_name[int32(k)]; ok && k != 0 {
		return strings.ToLower(strings.TrimPrefix(name, kindPrefix))
	}
	return "kind " + strconv.Itoa(int(k))
}

// ParseKind is the reverse of String.
func ParseKind(name string) (Kind, error) {
	if k := Kind(lockdv1.LockKind_value[kindPrefix+strings.ToUpper(name)]); k != 0 && k.String() == name {
		return k, nil
	}
	return 0, invalid("INVALID_KIND",
		"there is no kind "+quoted(name)+"; the kinds are exclusive, fair, read, write and semaphore")
}
