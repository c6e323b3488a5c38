package observe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Harmful says whether JSON writers leave a character as it is, although a terminal obeys it or a reader does not see
// it. They escape ASCII's other control characters, except those that lockd writes itself: colors of the log, and ends
// of lines.
func Harmful(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r > 0x9f && (unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}

// Escape writes certain characters as \uXXXX, which is what JSON has for them, and what is not UTF-8 as U+FFFD.
func Escape(text string, which func(rune) bool) string {
	var out strings.Builder
	for _, r := range text {
		if !which(r) {
			out.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}
