package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// printable makes a text safe for a terminal. Names, client names, annotations and the texts of errors come from other
// people: with control characters in them they could forge rows, move the cursor or set the title; with direction marks
// and invisible characters they could pass for something else. All those are shown as escapes of Go, such as \x1b and
// \u202e. Every text that lockctl prints goes through it.
func printable(text string) string {
	return escape(text, func(out *strings.Builder, r rune) {
		quoted := strconv.QuoteRuneToASCII(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	})
}

// escape has hide write the runes of a text that are not visible. Bytes that are not UTF-8 become U+FFFD.
func escape(text string, hide func(out *strings.Builder, r rune)) string {
	var out strings.Builder
	for _, r := range text {
		if visible(r) {
			out.WriteRune(r)
		} else {
			hide(&out, r)
		}
	}
	return out.String()
}

// visible says whether a rune shows as itself. Of spaces only the common one does.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// cell is printable for a column: spaces that could be taken for the gap between two columns are shown, too.
func cell(text string) string {
	text = strings.ReplaceAll(printable(text), "  ", ` \x20`)
	if rest, ok := strings.CutPrefix(text, " "); ok {
		text = `\x20` + rest
	}
	if rest, ok := strings.CutSuffix(text, " "); ok {
		text = rest + `\x20`
	}
	return text
}

func printLine(w io.Writer, format string, args ...any) error {
	_, err := io.WriteString(w, printable(fmt.Sprintf(format, args...))+"\n")
	return err
}

// printJSON prints one value as one line. JSON escapes some control characters itself; this escapes all that is not
// visible.
func printJSON(w io.Writer, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	line := escape(strings.TrimSuffix(buf.String(), "\n"), func(out *strings.Builder, r rune) {
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(out, `\u%04x`, unit)
		}
	})
	_, err := io.WriteString(w, line+"\n")
	return err
}
