package lock

import "unicode/utf8"

// FirstBytes is the first part of a text, no longer than so many bytes, without half a character at its end.
func FirstBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
