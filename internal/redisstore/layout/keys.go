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

	// oddPrefix begins keys of a name that is nothing but a text in braces, see odd.
	oddPrefix = "lockd_odd:"

	// peersPrefix begins the channels by which replicas ask each other.
	peersPrefix = "lockd:peers:"

	// Data holds the id of a set of data: random, made by whichever lockd first finds none, without an end. It goes
	// with the data, by FLUSHALL, a restart without them, SWAPDB, or a fail-over to an empty replica. So a hold that is
	// gone was freed by somebody if the data are still the same, and lost with them if not, whoever has taken the name
	// since.
	Data = "lockd:data"

	// runKey begins the run key of a server's data, see package dataloss.
	runKey = "lockd:member"

	// declarationPrefix begins the key that says how the replicas of lockd use the server.
	declarationPrefix = "lockd:config:"

	// Prefixes is the key with the prefixes that are in use.
	Prefixes = "lockd:prefixes"

	// sessionPrefix begins the key with the record of a session.
	sessionPrefix = "lockd:session"

	// Control is the channel that tells all replicas of lockd what they cannot see by themselves.
	Control = "lockd:control"
)

// All functions below take the lock key N, which is the configured prefix and the name.

// helperKey is prefix:{N}, in the cluster slot of N. A key with a '{' has its slot in its braces already, and Redisson
// adds none then.
func helperKey(prefix, n string) string {
	if strings.Contains(n, "{") {
		return prefix + ":" + n
	}
	return prefix + ":{" + n + "}"
}

// Token is where the last fence of N is kept.
//
// By Redisson's rule "a" and "{a}" share one key, which does no harm to it, as it never compares fences. We do, and
// a grant of the one would make holds of the other stale. The odd one therefore has a key of its own.
func Token(n string) string {
	if odd(n) {
		return helperKey(bracedTokenPrefix, n)
	}
	return helperKey(tokenPrefix, n)
}

// Channel is where the release of N is published. "a" and "{a}" share it: a release of the one makes those who wait
// for the other look once in vain.
func Channel(n string) string { return helperKey(channelPrefix, n) }

// odd says whether N is nothing but a text in braces, "{a}". By Redisson's rules its keys are those of "a". Channels
// may be shared: somebody looks once in vain. Places, holds and permits must not be, so all keys of the odd one but N
// itself are its own. Its kinds other than exclusive are therefore not shared with Redisson.
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

// PermitsOut is where the permits of N are that were given out.
func PermitsOut(n string) string { return HoldBase(n) + permitsOutName }

// RWChannel is where it is published that N may be read or written.
func RWChannel(n string) string { return helperKey(rwPrefix, n) }

// PermitChannel is where it is published that N has permits.
func PermitChannel(n string) string { return helperKey(permitPrefix, n) }

// WaiterChannel is where a fair waiter of N is told by Redisson that it may take it.
func WaiterChannel(n string, o lock.Owner) string { return Channel(n) + ":" + string(o) }

// NewsChannel is lockd's own channel of N, see script/news.lua. No two names share it.
func NewsChannel(n string) string {
	if strings.Contains(n, "{") {
		return newsPrefix + "::" + n
	}
	return newsPrefix + ":{" + n + "}"
}

// OfName says whether a channel is for what concerns one name. All others are for all replicas.
func OfName(channel string) bool {
	return strings.HasPrefix(channel, channelPrefix) || strings.HasPrefix(channel, rwPrefix) ||
		strings.HasPrefix(channel, permitPrefix) || strings.HasPrefix(channel, newsPrefix)
}

// RunKey is the run key of the data whose id is in a key.
func RunKey(data string) string { return runKey + strings.TrimPrefix(data, Data) }

// Keys are those of the scripts for N as a lock of a kind.
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

// LookKeys are those of script/look.lua.
func LookKeys(n string) []string {
	return []string{n, Token(n), Queue(n), PermitsOut(n)}
}

// OfToken returns the N that a token key belongs to, if it is one.
func OfToken(key string) (n string, ok bool) {
	n, ok = strings.CutPrefix(key, bracedTokenPrefix+":")
	if !ok {
		n, ok = strings.CutPrefix(key, tokenPrefix+":")
		if inner, braced := unbrace(n); braced {
			n = inner
		}
	}
	// Whatever else bears such a name was not made by us.
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

// ListPattern matches the token keys of all N that begin with a text, and some others.
func ListPattern(begin string) string {
	if begin == "" {
		return tokenPattern + "*"
	}
	// The brace in front of N is there or not.
	return tokenPattern + "*" + globEscaper.Replace(begin) + "*"
}

// Topic is where replicas publish what they ask each other. Redis has one space of channels for all its databases, so
// the database and the prefix are in the name: replicas that share neither are not peers.
func Topic(database int, prefix, topic string) string {
	return peersPrefix + strconv.Itoa(database) + ":" + prefix + ":" + topic
}

// Declaration is the key with how the locks with a prefix are kept: it ends when no lockd keeps them so any more.
// Replicas with different prefixes share no lock, so they may differ.
func Declaration(prefix string) string { return declarationPrefix + prefix }

// Session is the key with the record of a session. It is in the cluster slot of the name that the session's id would
// be.
func Session(prefix, id string) string { return helperKey(sessionPrefix, prefix+id) }

// CheckPrefix says whether names with a prefix can be locks, and all keys of a name are in one cluster slot.
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
