package pipe

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// fake is a server that answers each command by a function. It says no to go on.
func fake(t testing.TB, answer func(c net.Conn, words []string) bool) (addr string, conns *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	conns = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					var n int
					if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
						return
					}
					words := make([]string, n)
					for i := range words {
						var k int
						if _, err := fmt.Fscanf(r, "$%d\r\n", &k); err != nil {
							return
						}
						b := make([]byte, k+2)
						if _, err := io.ReadFull(r, b); err != nil {
							return
						}
						words[i] = string(b[:k])
					}
					if !answer(c, words) {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), conns
}

// greets answers what greet asks.
func greets(c net.Conn, words []string) bool {
	switch strings.ToLower(words[0]) {
	case "hello":
		_, _ = fmt.Fprint(c, "*6\r\n+server\r\n+redis\r\n+proto\r\n:2\r\n+id\r\n:3\r\n")
	case "client":
		if strings.ToLower(words[1]) == "id" {
			_, _ = fmt.Fprint(c, ":7\r\n")
		} else {
			_, _ = fmt.Fprint(c, "+OK\r\n")
		}
	case "info":
		_, _ = fmt.Fprint(c, "$14\r\nrun_id:abcdef\n\r\n")
	case "script":
		_, _ = fmt.Fprint(c, "$40\r\n0123456789012345678901234567890123456789\r\n")
	default:
		return false
	}
	return true
}

// A server that lets everybody in and hangs up at once, or says what nobody asked for, is not asked without a pause.
func TestAServerThatHangsUpAfterItsGreetingIsNotAskedWithoutPause(t *testing.T) {
	for what, then := range map[string]string{"hangs up": "", "babbles": "+OK\r\n"} {
		t.Run(what, func(t *testing.T) {
			addr, conns := fake(t, func(c net.Conn, words []string) bool {
				if !greets(c, words) {
					return false
				}
				if words[0] == "info" {
					time.Sleep(time.Millisecond)
					_, _ = fmt.Fprint(c, then)
					return then != ""
				}
				return true
			})
			begun := time.Now()
			way(t, addr, time.Second)
			time.Sleep(time.Second)
			if n := conns.Load(); n > 2+int64(time.Since(begun)/firstRedial) {
				t.Errorf("%d connections in %v, want at most one in %v", n, time.Since(begun), firstRedial)
			}
		})
	}
}

// As long as the configuration is wrong the error is repeated every minute, and not more often.
func TestAWrongConfigurationIsToldEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.ErrorLevel)
		tr := &Trouble{log: zap.New(core)}
		attempts := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(lastRedial) {
				_ = tr.note(io.EOF)
			}
		}
		attempts(troubleAfter)
		if logs.Len() != 0 {
			t.Errorf("told %d times within %v, want that it may heal", logs.Len(), troubleAfter)
		}
		attempts(10*time.Minute - time.Second)
		if logs.Len() != 10 {
			t.Errorf("told %d times in ten minutes, want 10", logs.Len())
		}
		tr.over()
		attempts(troubleAfter)
		if logs.Len() != 10 {
			t.Error("told at once after it had healed")
		}
	})
}
