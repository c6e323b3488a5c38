package attacks

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

var (
	long = flag.Duration("long", 500*time.Millisecond,
		"for how long each attack goes on; from 10s on each is made with and without a clients file")
	measured = flag.Bool("measure", false,
		"measure what the honest client keeps of its speed, attack by attack: nothing else may run on this machine")
)

var lockdBin string

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(envAttack) != "" {
		attackForever()
	}
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "1", Before: func() (err error) {
		if lockdBin = os.Getenv("TEST_BIN"); lockdBin == "" {
			lockdBin, err = harness.Build("lockd")
		}
		return err
	}}))
}

// asking appends what is sent for a new stream.
type asking func(b []byte, stream uint32) []byte

// flood repeats what ask gives for each next stream, over some connections, as fast as lockd reads it. One that lockd
// closes is made again.
func flood(ask asking) load {
	return wire(8, func(ctx context.Context, a attacker) {
		for id := uint32(1); ctx.Err() == nil; {
			rest(ctx)
			var b []byte
			for range 64 {
				b = ask(b, id)
				id += 2
			}
			if !a.say(b) {
				return
			}
		}
	})
}

// wire are so many connections that speak by hand, from as many addresses if they are to be apart.
func wire(connections int, speak func(ctx context.Context, a attacker)) load {
	return load{run: func(*grpc.ClientConn) func(ctx context.Context) {
		return crowd(connections, func(ctx context.Context, i int) {
			from := os.Getenv(envFrom)
			if os.Getenv(envApart) != "" {
				from = fmt.Sprint("127.0.0.", 2+i)
			}
			if a, err := attack(ctx, os.Getenv(envAuthority), from, os.Getenv(envTo)); err == nil {
				speak(ctx, a)
				_ = a.Close()
			}
		})
	}}
}

// floods are by what they show of themselves.
var floods = map[string]func(shows ...string) asking{
	"calls that are reset": func(shows ...string) asking {
		return func(b []byte, stream uint32) []byte {
			return frame(frame(b, headers, endHeaders, stream, call(acquire, shows...)), reset, 0, stream, []byte{0, 0, 0, 8})
		}
	},
	"calls that nobody knows": func(shows ...string) asking {
		return func(b []byte, stream uint32) []byte {
			return frame(b, headers, endHeaders|endStream, stream, call("/no/where", shows...))
		}
	},
	"large headers": func(shows ...string) asking {
		return func(b []byte, stream uint32) []byte {
			block := append(call(acquire, shows...), bytes.Repeat([]byte{0x90}, 16<<10-300)...)
			return frame(b, headers, endHeaders, stream, block)
		}
	},
	"headers that never end": func(shows ...string) asking {
		return func(b []byte, stream uint32) []byte {
			if stream == 1 {
				b = frame(b, headers, 0, stream, call(acquire, shows...))
			}
			return frame(b, continuation, 0, 1, bytes.Repeat([]byte{0x90}, 1<<10))
		}
	},
	"settings": func(...string) asking {
		return func(b []byte, _ uint32) []byte {
			return frame(b, settings, 0, 0, bytes.Repeat([]byte{0, 4, 0, 0, 255, 255, 0, 4, 0, 1, 0, 0}, 1300))
		}
	},
	"pings": func(...string) asking {
		return func(b []byte, _ uint32) []byte { return frame(b, ping, 0, 0, make([]byte, 8)) }
	},
	"calls": func(shows ...string) asking { // complete, and refused
		return func(b []byte, stream uint32) []byte {
			b = frame(b, headers, endHeaders, stream, call(acquire, shows...))
			return frame(b, data, endStream, stream, make([]byte, 5))
		}
	},
}

// wires are those, of nobody and of a client.
var wires = func() map[string]load {
	all := map[string]load{
		"messages that never end": wire(8, func(ctx context.Context, a attacker) { a.neverEnd(ctx) }),
		"messages that never end of a client": wire(8, func(ctx context.Context, a attacker) {
			a.neverEnd(ctx, bearer(attackerToken))
		}),
		"messages that never end on one connection": wire(1, func(ctx context.Context, a attacker) { a.neverEnd(ctx) }),
	}
	for name, ask := range floods {
		all[name], all[name+" of a client"] = flood(ask()), flood(ask(bearer(attackerToken)))
	}
	return all
}()

// Frames that ask for nothing take no lease, no memory and no probe from the others.
func TestFramesThatAskForNothingHarmNobody(t *testing.T) {
	for name := range floods {
		for _, attack := range []string{name, name + " of a client"} {
			if attack != name && !whole() {
				continue
			}
			t.Run(attack, func(t *testing.T) {
				sideBySide(t)
				v := victimOf(t, nil, attack != name)
				v.have(t, attack, v.Addr)
				v.suffer(t)
			})
		}
	}
	t.Run("calls of nobody", func(t *testing.T) {
		sideBySide(t)
		v := guarded(t)
		v.have(t, "calls", v.Addr)
		v.suffer(t)
	})
}

// Messages that never end take no more memory than there is, whether they come over one connection or many, or over
// TLS, from nobody or a client.
func TestMessagesThatNeverEndFillNoMemory(t *testing.T) {
	ca := certstest.NewAuthority(t, "attacks")
	const many, one = "messages that never end", "messages that never end on one connection"
	for name, c := range map[string]struct {
		attack  string
		over    *certstest.Authority
		guarded bool
	}{
		"one connection": {attack: one}, "eight": {attack: many}, "TLS": {attack: many, over: ca},
		"of a client": {attack: many + " of a client", guarded: true}, "of nobody": {attack: many, guarded: true},
	} {
		t.Run(name, func(t *testing.T) {
			sideBySide(t)
			v := victimOf(t, c.over, c.guarded)
			v.enough = func() bool { return v.Metric(`lockd_calls_cut_total{reason="connection"}`) > 0 }
			v.have(t, c.attack, v.Addr, envApart+"=1")
			v.suffer(t)
			if !v.enough() {
				t.Error("no call was ended: too little happened for this test to mean anything")
			}
		})
	}
}

// neverEnd sends all but the end of many messages at a time, and then waits.
func (a attacker) neverEnd(ctx context.Context, shows ...string) {
	const calls, size, part = 250, 4 << 20, 16 << 10
	defer context.AfterFunc(ctx, func() { _ = a.Close() })()
	defer func() { <-ctx.Done() }()
	for i := range calls {
		a.say(frame(nil, headers, endHeaders, uint32(2*i+1), call(acquire, shows...)))
	}
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	zeros := make([]byte, part)
	for i := range calls {
		a.say(frame(nil, data, 0, uint32(2*i+1), prefix))
	}
	for range size/part - 1 {
		rest(ctx)
		for i := range calls {
			if !a.say(frame(nil, data, 0, uint32(2*i+1), zeros)) {
				return
			}
		}
	}
}
