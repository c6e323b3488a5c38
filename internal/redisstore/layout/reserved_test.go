package layout

import (
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

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
