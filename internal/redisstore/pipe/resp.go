package pipe

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// How large a reply may be. Those of lockd's scripts are much smaller.
const (
	mostReply    = 16 << 20 // bytes
	mostElements = 1 << 18  // of a list
	mostDepth    = 8        // of lists in lists
)

// ReplyError is an error reply of Redis, of the type that go-redis gives one: its functions for errors work with this
// one.
func ReplyError(text string) redis.Error { return like(redis.Nil, text) }

// like converts text to the type of its first argument, which has no name outside of go-redis.
func like[T ~string](_ T, text string) T { return T(text) }

// errMalformed: what came is no reply, so nothing that follows can be read.
var errMalformed = errors.New("a malformed reply")

// appendCommand adds a command as Redis reads it.
func appendCommand(b []byte, words ...any) []byte {
	b = appendHead(b, '*', len(words))
	for _, w := range words {
		switch w := w.(type) {
		case string:
			b = appendText(b, w)
		case *string:
			b = appendText(b, *w)
		case []byte:
			b = appendText(b, w)
		case int:
			b = appendNumber(b, int64(w))
		case int64:
			b = appendNumber(b, w)
		default:
			b = appendText(b, fmt.Sprint(w))
		}
	}
	return b
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(append(appendHead(b, '$', len(text)), text...), '\r', '\n')
}

func appendNumber(b []byte, n int64) []byte {
	var digits [20]byte
	return appendText(b, strconv.AppendInt(digits[:0], n, 10))
}

type reader struct {
	*bufio.Reader
	left int // bytes that the reply may still have
}

// reply reads a reply: a text, a number, nil, a list of these, or a redis.Error. After an error the connection cannot
// be used any longer.
func (r *reader) reply() (any, error) {
	r.left = mostReply
	return r.value(mostDepth)
}

func (r *reader) value(depth int) (any, error) {
	line, err := r.line()
	if err != nil {
		return nil, err
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return string(rest), nil
	case '-':
		return ReplyError(string(rest)), nil
	}
	n, ok := number(rest)
	switch {
	case !ok:
	case kind == ':':
		return n, nil
	case n == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$' && n >= 0 && n <= int64(r.left):
		return r.text(int(n))
	case kind == '*' && n >= 0 && n <= mostElements && depth > 0:
		return r.list(int(n), depth-1)
	}
	return nil, fmt.Errorf("%w: %.40q", errMalformed, line)
}

// line reads a line, which is not empty.
func (r *reader) line() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = fmt.Errorf("%w: %.40q", errMalformed, line)
	}
	if err != nil {
		return nil, err
	}
	n := len(line) - len("\r\n")
	if r.left -= len(line); n < 1 || line[n] != '\r' || r.left < 0 {
		return nil, fmt.Errorf("%w: %.40q", errMalformed, line)
	}
	return line[:n], nil
}

func (r *reader) text(n int) (_ any, err error) {
	r.left -= n
	var all []byte
	short := n+2 <= r.Size()
	if short {
		all, err = r.Peek(n + 2)
	} else {
		all = make([]byte, n+2)
		_, err = io.ReadFull(r, all)
	}
	if err != nil {
		return nil, err
	}
	if string(all[n:]) != "\r\n" {
		return nil, fmt.Errorf("%w: %.40q", errMalformed, all)
	}
	text := string(all[:n])
	if short {
		_, _ = r.Discard(n + 2) // it is there
	}
	return text, nil
}

func (r *reader) list(n, depth int) (any, error) {
	all := make([]any, n)
	for i := range all {
		v, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		all[i] = v
	}
	return all, nil
}

func number(digits []byte) (n int64, ok bool) {
	sign := int64(1)
	if len(digits) > 1 && digits[0] == '-' {
		sign, digits = -1, digits[1:]
	}
	if len(digits) == 0 || len(digits) > 19 {
		return 0, false
	}
	for _, d := range digits {
		if d -= '0'; d > 9 {
			return 0, false
		}
		if n = n*10 + int64(d); n < 0 { // it is too great
			return 0, false
		}
	}
	return sign * n, true
}
