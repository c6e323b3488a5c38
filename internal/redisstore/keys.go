package redisstore

import (
	"strings"
)

// The helper keys of a name, as Redisson calls them.
const (
	tokenPrefix   = "redisson_lock_token"
	channelPrefix = "redisson_lock__channel"

	// bracedTokenPrefix is our own, see tokenKey.
	bracedTokenPrefix = "lockd_lock_token"
	// tokenPattern matches both.
	tokenPattern = "*_lock_token:"

	// controlChannel tells all replicas of lockd what they cannot see by themselves.
	controlChannel = "lockd:control"
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

// tokenKey is where the last fence of N is kept.
//
// By Redisson's rule "a" and "{a}" share one key, which does no harm to it, as it never compares fences. We do, and
// a grant of the one would make holds of the other stale. The odd one therefore has a key of its own.
func tokenKey(n string) string {
	if inner, ok := unbrace(n); ok && inner != "" {
		return bracedTokenPrefix + ":" + n
	}
	return helperKey(tokenPrefix, n)
}

// channelKey is where the release of N is published. "a" and "{a}" share it: a release of the one makes those who wait
// for the other look once in vain.
func channelKey(n string) string { return helperKey(channelPrefix, n) }

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
