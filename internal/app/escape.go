package app

import (
	"strings"
	"unicode"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/lockd-io/lockd/internal/observe"
)

// escaping writes log lines that do nothing to a terminal, whatever clients call themselves and their locks. zap
// escapes control characters of ASCII in fields, but not in messages of the console form, and leaves others as they
// are: DEL, those of C1 (a terminal may take U+009B as the beginning of an escape sequence), and those that reorder
// text.
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
		entry.Message = observe.Escape(entry.Message, unicode.IsControl)
	}
	line, err := e.Encoder.EncodeEntry(entry, fields)
	if err != nil || !strings.ContainsFunc(line.String(), observe.Harmful) {
		return line, err
	}
	escaped := e.buffers.Get()
	escaped.AppendString(observe.Escape(line.String(), observe.Harmful))
	line.Free()
	return escaped, nil
}
