package redisstore

import (
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// The helper keys of a name, as Redisson calls them.
const (
	tokenPrefix   = "redisson_lock_token"
	channelPrefix = "redisson_lock__channel"

	// bracedTokenPrefix is our own, see tokenKey.
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

	// controlChannel tells all replicas of lockd what they cannot see by themselves.
	controlChannel = "lockd:control"
)

// All functions below take the lock key N, which is the configured prefix and the name.

// helperKey is prefix:{N}, in the cluster slot of N. A key with a '{' has its slot in its braces already, and Redisson
// adds none then.
func helperKey(prefix, n string) string {
	open, shut := around(n)
	return prefix + open + n + shut
}

// around is what stands before and behind N in a helper key.
func around(n string) (open, shut string) {
	if strings.Contains(n, "{") {
		return ":", ""
	}
	return ":{", "}"
}

// tokenKey is where the last fence of N is kept.
//
// By Redisson's rule "a" and "{a}" share one key, which does no harm to it, as it never compares fences. We do, and
// a grant of the one would make holds of the other stale. The odd one therefore has a key of its own.
func tokenKey(n string) string { return helperKey(tokenStem(n), n) }

// tokenStem is what tokenKey begins with.
func tokenStem(n string) string {
	if odd(n) {
		return bracedTokenPrefix
	}
	return tokenPrefix
}

// channelKey is where the release of N is published. "a" and "{a}" share it: a release of the one makes those who wait
// for the other look once in vain.
func channelKey(n string) string { return helperKey(channelPrefix, n) }

// odd says whether N is nothing but a text in braces, "{a}". By Redisson's rules its keys are those of "a". Channels may
// be shared: somebody looks once in vain. Places, holds and permits must not be, so all keys of the odd one but N itself
// are its own. Its kinds other than exclusive are therefore not shared with Redisson.
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

// holdBase is what the keys of single holds of N begin with.
func holdBase(n string) string {
	switch {
	case odd(n):
		return oddPrefix + n + ":"
	case strings.Contains(n, "{"):
		return n + ":"
	}
	return "{" + n + "}:"
}

// permitsOut is where the permits of N are that were given out.
func permitsOut(n string) string { return holdBase(n) + permitsOutName }

// rwChannel and permitChannel are where it is published that N may be read or written, or has permits.
func rwChannel(n string) string     { return helperKey(rwPrefix, n) }
func permitChannel(n string) string { return helperKey(permitPrefix, n) }

// waiterChannel is where a fair waiter of N is told by Redisson that it may take it.
func waiterChannel(n string, o lock.Owner) string { return channelKey(n) + ":" + string(o) }

// newsChannel is lockd's own channel of N, see news.lua.
func newsChannel(n string) string { return newsPrefix + ":" + n }

// The keys that the scripts of each kind take.

func plainKeys(n string) []string { return []string{n, tokenKey(n)} }

func fairKeys(n string) []string {
	return []string{
		n, tokenKey(n), keyOf(queuePrefix, n), keyOf(timeoutPrefix, n), keyOf(placePrefix, n), keyOf(suspectPrefix, n),
	}
}

func rwKeys(n string) []string { return []string{n, tokenKey(n), keyOf(writerPrefix, n)} }

func permitKeys(n string) []string { return []string{n, tokenKey(n), permitsOut(n)} }

// lockOfToken returns the N that a token key belongs to, if it is one.
func lockOfToken(key string) (n string, ok bool) {
	n, ok = strings.CutPrefix(key, bracedTokenPrefix+":")
	if !ok {
		n, ok = strings.CutPrefix(key, tokenPrefix+":")
		if inner, braced := unbrace(n); braced {
			n = inner
		}
	}
	// Whatever else bears such a name was not made by us.
	return n, ok && n != "" && tokenKey(n) == key
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

// listPattern matches the token keys of all N that begin with a text, and some others.
func listPattern(begin string) string {
	if begin == "" {
		return tokenPattern + "*"
	}
	// The brace in front of N is there or not.
	return tokenPattern + "*" + globEscaper.Replace(begin) + "*"
}
