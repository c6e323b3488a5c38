package layout

import (
	"strings"
	"testing"
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
