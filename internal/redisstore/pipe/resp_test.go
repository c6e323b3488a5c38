package pipe

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func parse(reply []byte) (any, error) {
	r := reader{Reader: bufio.NewReaderSize(bytes.NewReader(reply), readBuffer)}
	return r.reply()
}

// format is a reply as Redis writes it.
func format(v any) []byte {
	switch v := v.(type) {
	case nil:
		return []byte("$-1\r\n")
	case int64:
		return fmt.Appendf(nil, ":%d\r\n", v)
	case redis.Error:
		return fmt.Appendf(nil, "-%s\r\n", v.Error())
	case string:
		return appendText(nil, v)
	}
	b := appendHead(nil, '*', len(v.([]any)))
	for _, one := range v.([]any) {
		b = append(b, format(one)...)
	}
	return b
}

func TestRepliesAreRead(t *testing.T) {
	for _, v := range []any{
		nil, int64(0), int64(-1), int64(math.MaxInt64), int64(-math.MaxInt64), "", "a\r\nb", ReplyError("ERR x"),
		strings.Repeat("x", readBuffer-2), strings.Repeat("x", readBuffer-1), strings.Repeat("x", 1<<20),
		[]any{},
		[]any{int64(7), nil, "x", []any{ReplyError("OOM x"), []any{}}},
	} {
		if got, err := parse(format(v)); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("got %.40v, %v, want %.40v", got, err, v)
		}
	}
	if got, err := parse([]byte("+OK\r\n")); err != nil || got != "OK" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := parse([]byte("*-1\r\n")); err != nil || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCommandsAreWritten(t *testing.T) {
	text := "s"
	got := appendCommand(nil, "set", &text, []byte("b"), 1, int64(-2), uint32(3), uint64(math.MaxUint64))
	want := "*7\r\n$3\r\nset\r\n$1\r\ns\r\n$1\r\nb\r\n$1\r\n1\r\n$2\r\n-2\r\n$1\r\n3\r\n$20\r\n18446744073709551615\r\n"
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// go-redis says of an error what it is, also if it is wrapped.
func TestAnErrorIsOneOfGoRedis(t *testing.T) {
	v, err := parse([]byte("-CLUSTERDOWN x\r\n"))
	if e, ok := v.(error); err != nil || !ok || !redis.IsClusterDownError(fmt.Errorf("wrapped: %w", e)) {
		t.Errorf("got %v, %v", v, err)
	}
}

// What is read as a reply is one: written again it is read alike. Nothing else does harm.
func FuzzReplies(f *testing.F) {
	for _, reply := range []string{
		"+OK\r\n", "-ERR x\r\n", ":-12\r\n", "$2\r\nab\r\n", "$-1\r\n", "$9\r\nab\r\n",
		"*2\r\n:1\r\n*1\r\n$0\r\n\r\n", "*-1\r\n",
	} {
		f.Add([]byte(reply))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		v, err := parse(reply)
		if err != nil {
			return
		}
		if again, err := parse(format(v)); err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("got %v, %v, want %v", again, err, v)
		}
	})
}
