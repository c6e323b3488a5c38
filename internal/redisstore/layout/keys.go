package layout

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// The helper keys of a name, as Redisson calls them.
const (
	tokenPrefix   = "redisson_lock_token"
	channelPrefix = "redisson_lock__channel"

	// bracedTokenPrefix is our own, see Token.
	bracedTokenPrefix = "lockd_lock_token"
	// tokenPattern matches both.
	tokenPattern = "*_lock_token:"

	queuePrefix    = "redisson_lock_queue"
	timeoutPrefix  = "redisson_lock_timeout"
	placePrefix    = "lockd_lock_queue"
	suspectPrefix  = "lockd_lock_suspect"
	writerPrefix   = "lockd_lock_writer"
	rwPrefix       = "redisson_rwlock"
	permitPrefix   = "redisson_sc"
	permitsOutName = "timeout"
	newsPrefix     = "lockd_lock_news"

	// oddPrefix begins keys of a name that is just a text in braces, see odd.
	oddPrefix = "lockd_odd:"

	// peersPrefix begins the channels by which replicas ask each other.
	peersPrefix = "lockd:peers:"

	// Data is the key with the id of the server's data. The id is random, has no TTL, and is made by the first lockd that
	// finds none. It is lost with the data, by FLUSHALL, a restart without them, SWAPDB, or a fail-over to an empty
	// replica. So a hold that is gone was freed by somebody if the id is still the same, and lost with the data if not,
	// whoever has taken the name since.
	Data = "lockd:data"

	// runKey begins the run key of a server's data, see package dataloss.
	runKey = "lockd:member"

	// declarationPrefix begins the key with the text that lock.Declarer.Declare keeps.
	declarationPrefix = "lockd:config:"

	// Prefixes is the key with the prefixes that are in use.
	Prefixes = "lockd:prefixes"

	// sessionPrefix begins the key with the record of a session.
	sessionPrefix = "lockd:session"

	// Control is the channel of messages to all replicas of lockd: the names that were freed by force.
	Control = "lockd:control"
)

// All functions below take the lock key N, which is the configured prefix and the name.

// helperKey is prefix:{N}, in the cluster slot of N. If N has a '{', its own braces decide the slot, and like Redisson
// it adds none.
func helperKey(prefix, n string) string {
	if strings.Contains(n, "{") {
		return prefix + ":" + n
	}
	return prefix + ":{" + n + "}"
}

// Token is where the last fence of N is kept.
//
// By Redisson's rule "a" and "{a}" share one key. That does no harm to Redisson, which never compares fences. lockd
// compares them, and a grant of the one name would make holds of the other stale. So the odd name has a key of its own.
func Token(n string) string {
	if odd(n) {
		return helperKey(bracedTokenPrefix, n)
	}
	return helperKey(tokenPrefix, n)
}

// Channel is where the release of N is published. "a" and "{a}" share it: when one is released, those who wait for the
// other look once in vain.
func Channel(n string) string { return helperKey(channelPrefix, n) }

// odd says whether N is just a text in braces, "{a}". By Redisson's rules its helper keys are those of "a". Places,
// holds and permits must not be shared by two names, so lockd gives an odd name helper keys of its own. Therefore only
// exclusive locks of an odd name exclude Redisson.
func odd(n string) bool {
	inner, ok := unbrace(n)
	return ok && inner != ""
}

// keyOf is prefix:{N} for what must not be shared with another name.
func keyOf(prefix, n string) string {
	if odd(n) {
		return oddPrefix + prefix + ":" + n
	}
	return helperKey(prefix, n)
}

// Queue is the key with the fair waiters of N.
func Queue(n string) string { return keyOf(queuePrefix, n) }

// Timeouts is the key with how long they wait.
func Timeouts(n string) string { return keyOf(timeoutPrefix, n) }

// Places is the key with how long lockd keeps the places of fair waiters of N.
func Places(n string) string { return keyOf(placePrefix, n) }

// Writer is the key with the writer that waits for N.
func Writer(n string) string { return keyOf(writerPrefix, n) }

// HoldBase is what the keys of single holds of N begin with.
func HoldBase(n string) string {
	switch {
	case odd(n):
		return oddPrefix + n + ":"
	case strings.Contains(n, "{"):
		return n + ":"
	}
	return "{" + n + "}:"
}

// PermitsOut is the key with the permits of N that are out.
func PermitsOut(n string) string { return HoldBase(n) + permitsOutName }

// RWChannel is where releases of a read-write lock N are published.
func RWChannel(n string) string { return helperKey(rwPrefix, n) }

// PermitChannel is where it is published how many permits of N are available.
func PermitChannel(n string) string { return helperKey(permitPrefix, n) }

// WaiterChannel is where Redisson tells a fair waiter that it may take N.
func WaiterChannel(n string, o lock.Owner) string { return Channel(n) + ":" + string(o) }

// NewsChannel is lockd's own channel of N, see script/news.lua. No two names share it.
func NewsChannel(n string) string {
	if strings.Contains(n, "{") {
		return newsPrefix + "::" + n
	}
	return newsPrefix + ":{" + n + "}"
}

// OfName says whether a channel is that of one name. All other channels are for all replicas.
func OfName(channel string) bool {
	return strings.HasPrefix(channel, channelPrefix) || strings.HasPrefix(channel, rwPrefix) ||
		strings.HasPrefix(channel, permitPrefix) || strings.HasPrefix(channel, newsPrefix)
}

// RunKey is the run key, see package dataloss, of the node whose data id is at the key data.
func RunKey(data string) string { return runKey + strings.TrimPrefix(data, Data) }

// Keys are the KEYS of the scripts for N and a kind.
func Keys(kind lock.Kind, n string) []string {
	switch kind {
	case lock.Fair:
		return []string{n, Token(n), Queue(n), Timeouts(n), Places(n), keyOf(suspectPrefix, n)}
	case lock.Read, lock.Write:
		return []string{n, Token(n), Writer(n)}
	case lock.Semaphore:
		return []string{n, Token(n), PermitsOut(n)}
	default:
		return []string{n, Token(n)}
	}
}

// LookKeys are the KEYS of script/look.lua.
func LookKeys(n string) []string {
	return []string{n, Token(n), Queue(n), PermitsOut(n)}
}

// OfToken returns the N whose Token is key, if there is one.
func OfToken(key string) (n string, ok bool) {
	n, ok = strings.CutPrefix(key, bracedTokenPrefix+":")
	if !ok {
		n, ok = strings.CutPrefix(key, tokenPrefix+":")
		if inner, braced := unbrace(n); braced {
			n = inner
		}
	}
	// A key that only looks like a token was not made by lockd.
	return n, ok && n != "" && Token(n) == key
}

// unbrace returns a for "{a}", if a has no further '{'.
func unbrace(s string) (inner string, ok bool) {
	inner, ok = strings.CutPrefix(s, "{")
	if !ok {
		return s, false
	}
	inner, ok = strings.CutSuffix(inner, "}")
	if !ok || strings.Contains(inner, "{") {
		return s, false
	}
	return inner, true
}

// globEscaper makes a text match itself in a pattern of SCAN.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// ListPattern matches the token keys of all N that begin with begin, and some other keys.
func ListPattern(begin string) string {
	if begin == "" {
		return tokenPattern + "*"
	}
	// There may be a brace in front of N.
	return tokenPattern + "*" + globEscaper.Replace(begin) + "*"
}

// Topic is the channel of a topic of lock.Peers. All databases of a Redis share its channels, so the channel's name has
// the database and the prefix: only replicas that share both are peers.
func Topic(database int, prefix, topic string) string {
	return peersPrefix + strconv.Itoa(database) + ":" + prefix + ":" + topic
}

// Declaration is the key with the text of lock.Declarer.Declare for a prefix. Replicas with different prefixes share no
// lock, so their texts may differ.
func Declaration(prefix string) string { return declarationPrefix + prefix }

// Session is the key with the record of a session. It is in the cluster slot of a lock with the id as its name.
func Session(prefix, id string) string { return helperKey(sessionPrefix, prefix+id) }

// CheckPrefix fails if names with this prefix are reserved, or if it would put keys of one name into different cluster
// slots.
func CheckPrefix(prefix string) error {
	if lock.Reserved(prefix) {
		return fmt.Errorf("prefix %q: helper keys of locks begin like this", prefix)
	}
	open, shut := strings.Index(prefix, "{"), strings.Index(prefix, "}")
	if open < 0 && shut < 0 || open >= 0 && shut > open+1 {
		return nil
	}
	return fmt.Errorf("prefix %q: braces must enclose something", prefix)
}
