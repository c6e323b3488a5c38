package lock

import "strings"

// A lock name is a key of the Store, and so are the helper keys of every lock. A lock that is named like a helper key
// of another one would overwrite the other one's fence, queue or permits. So these names are refused, for every store
// and every verb alike. They are lockd's helper keys and those of Redisson, which may share the store.

// reservedBegins begin the helper keys that are made of a prefix and the name.
var reservedBegins = []string{
	"redisson_lock_token:", "redisson_lock_queue:", "redisson_lock_timeout:", "redisson_lock__channel",
	"redisson_rwlock:", "redisson_sc:", "redisson_unlock_latch:", "redisson_countdownlatch__channel",
	"lockd_lock_", "lockd_odd:", "lockd:",
}

// Reserved says whether a key of the Store reads as a helper key, and therefore cannot be a lock.
func Reserved(key string) bool {
	if strings.HasPrefix(key, "redisson_") || strings.HasPrefix(key, "lockd") { // all of them do
		for _, begin := range reservedBegins {
			if strings.HasPrefix(key, begin) {
				return true
			}
		}
	}
	// The other helper keys are "{name}:..." or, if the name has a '{' itself, "name:...".
	if !strings.Contains(key, "{") {
		return false
	}
	return strings.HasSuffix(key, ":timeout") || strings.HasSuffix(key, ":write:lockd_fence") ||
		strings.Contains(key, ":rwlock_timeout:")
}
