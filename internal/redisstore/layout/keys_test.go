package layout

import (
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

func FuzzTokenKeysAreTurnedBack(f *testing.F) {
	for _, n := range []string{
		"a", "{a}", "{a}b", "b{a}", "{{a}}", "{a", "a}", "{}", "}{", "redisson_lock_token:{a}",
		"a:b",
	} {
		f.Add(n, n)
	}
	f.Fuzz(func(t *testing.T, n, m string) {
		key := Token(n)
		back, ok := OfToken(key)
		// The broker takes no names with a brace that does not belong to a pair.
		if strings.Contains(n, "{") || !strings.Contains(n, "}") {
			if n != "" && n != "{}" && (!ok || back != n) {
				t.Errorf("%q has token key %q, which gives back %q, %v", n, key, back, ok)
			}
			if wellFormed(n) && wellFormed(m) && n != m && Token(m) == key {
				t.Errorf("%q and %q share token key %q", n, m, key)
			}
		}
		if lock, ok := OfToken(m); ok && Token(lock) != m {
			t.Errorf("%q is said to be the token key of %q, which has %q", m, lock, Token(lock))
		}
	})
}

// wellFormed says whether the broker takes a name with such braces.
func wellFormed(n string) bool {
	_, after, open := strings.Cut(n, "{")
	if !open {
		return n != "" && !strings.Contains(n, "}")
	}
	tag, _, shut := strings.Cut(after, "}")
	return shut && tag != ""
}

// The numbers are what CLUSTER KEYSLOT of Redis 7.0 answers.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "a": 15495, "123456789": 12739, "{a}b": 15495, "x{a}{b}": 15495, "{}a": 10875, "a{": 14311, "{{a}}": 10276,
		"a}b{c}": 7365,
	} {
		if got := Slot(key); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func TestInOneSlot(t *testing.T) {
	for n, want := range map[string]bool{
		"a": true, "{a}": true, "{a}b": true, "x{a}y": true, "a:b": true,
		"{}": false, "{}a": false, "a{": false, "a}": false, "}{": false, "{{a}}": true, "a}b{c}": true,
	} {
		if got := InOneSlot(n); got != want {
			t.Errorf("%q: got %t, want %t", n, got, want)
		}
	}
}

// helperKeys are all keys that any script uses for N, besides N, and those that Redisson uses.
func helperKeys(n, owner string) []string {
	keys := LookKeys(n)[1:]
	for _, kind := range lock.Kinds() {
		keys = append(keys, Keys(kind, n)[1:]...)
	}
	keys = append(keys, Channel(n), WaiterChannel(n, lock.Owner(owner)), NewsChannel(n), RWChannel(n), PermitChannel(n),
		Control)
	base := HoldBase(n)
	keys = append(keys, base+owner+":rwlock_timeout:1", base+owner+":rwlock_timeout:100", base+owner+":write:lockd_fence")
	theirs := []string{
		tokenPrefix, queuePrefix, timeoutPrefix, channelPrefix, rwPrefix, permitPrefix, "redisson_unlock_latch",
	}
	for _, prefix := range theirs {
		keys = append(keys, helperKey(prefix, n), helperKey(prefix, n)+":0123456789abcdef0123456789abcdef")
	}
	suffixed := "{" + n + "}:"
	if strings.Contains(n, "{") {
		suffixed = n + ":"
	}
	return append(keys, suffixed+"timeout", suffixed+owner+":rwlock_timeout:1",
		"redisson_lock__channel__{"+n+"}", "redisson_countdownlatch__channel__{"+n+"}")
}

// Whatever name is accepted, no helper key of it is accepted as another name, with a prefix or without. Nor do two
// names share a helper key.
func FuzzNoNameIsAHelperKey(f *testing.F) {
	const owner = "c562c2b3-3ac7-46e1-b138-f1b67be63b9f:report#2"
	for _, seed := range [][2]string{
		{"", "job"},
		{"", "{a}"},
		{"", "a"},
		{"", "a{b}"},
		{"", "{a}b"},
		{"", "{a}b:timeout"},
		{"app:", "job"},
		{"{app}:", "job"},
		{"{app}:", "job:timeout"},
		{"redisson_", "lock_token:{a}"},
		{"lockd", ":control"},
		{"", "redisson_lock_token:{a}"},
		{"redisson_lock_token:", "a"},
		{"", "{a}:x:rwlock_timeout:1"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, prefix, name string) {
		if CheckPrefix(prefix) != nil || strings.Contains(prefix+name, "}") != strings.Contains(prefix+name, "{") {
			return
		}
		accepted := func(name string) bool {
			return !lock.Reserved(name) && !lock.Reserved(prefix+name)
		}
		if !accepted(name) {
			return
		}
		for _, key := range helperKeys(prefix+name, owner) {
			if other, ok := strings.CutPrefix(key, prefix); ok && accepted(other) {
				t.Errorf("%q is a helper key of %q, and accepted as the name %q with the prefix %q", key, name, other, prefix)
			}
			if !lock.Reserved(key) {
				t.Errorf("%q is a helper key of %q, and accepted as a name without a prefix", key, name)
			}
		}
	})
}

func TestPrefixesThatBeginHelperKeysAreRefused(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"": true, "app:": true, "{app}:": true, "redisson:": true, "redisson_lock": true, "lockd-": true,
		"redisson_lock_token:": false, "redisson_sc:": false, "lockd:": false, "lockd_lock_x": false, "lockd_odd:": false,
	} {
		if err := CheckPrefix(prefix); (err == nil) != ok {
			t.Errorf("%q: got %v, want ok = %v", prefix, err, ok)
		}
	}
}
