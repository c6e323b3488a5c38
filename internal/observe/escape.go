package observe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Harmful are the characters that writers of JSON write as they are, and a terminal obeys or a reader does not see.
// ASCII's others are escaped by them, or are ours: the colors of the log, and the end of a line.
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
