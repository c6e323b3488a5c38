package lock

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsReadable says whether a text is UTF-8 without control characters.
func IsReadable(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
		}
		if s[i] < ' ' || s[i] == '\x7f' {
			return false
		}
	}
	return true
}
