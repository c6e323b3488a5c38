package app

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// escaping writes log lines that do nothing to a terminal, whatever clients call themselves and their locks. zap
// escapes control characters of ASCII in fields, but not in messages of the console form, and leaves others as they
// are: DEL, those of C1 (a terminal may take U+009B as the begin of an escape sequence), and those that reorder text.
type escaping struct {
	zapcore.Encoder
	buffers buffer.Pool
}

func newEscaping(e zapcore.Encoder) zapcore.Encoder { return escaping{e, buffer.NewPool()} }

// Clone is for loggers with fields of their own.
func (e escaping) Clone() zapcore.Encoder { return escaping{e.Encoder.Clone(), e.buffers} }

// EncodeEntry writes a line.
func (e escaping) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	if strings.ContainsFunc(entry.Message, unicode.IsControl) {
		entry.Message = escape(entry.Message, unicode.IsControl)
	}
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil || !strings.ContainsFunc(line.String(), harmful) {
		return line, err
	}
	escaped := e.buffers.Get()
	escaped.AppendString(escape(line.String(), harmful))
	line.Free()
	return escaped, nil
}

// harmful are the characters that zap writes as they are, and a terminal obeys or a reader does not see. ASCII's are
// escaped by zap, or are ours: the colors, and the end of the line.
func harmful(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r > 0x9f && (unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}

// escape writes certain characters as \uXXXX, which is what JSON has for them, and what is not UTF-8 as U+FFFD.
func escape(text string, which func(rune) bool) string {
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
