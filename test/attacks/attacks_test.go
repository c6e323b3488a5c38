package attacks

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

var long = flag.Duration("long", tier.Pick(500*time.Millisecond, 10*time.Second), "for how long each attack goes on")

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

const (
	// mostMemory is the limit of the chart, and memoryLimit what it tells Go.
	mostMemory, memoryLimit = 512 << 20, "GOMEMLIMIT=410MiB"
	leases                  = 50
)

// victim is a lockd with an honest client.
type victim struct {
	*harness.Lockd
	locks []*client.Lock
	// enough says whether an attack had its effect; nil = at once.
	enough func() bool
}

func newVictim(t *testing.T, env ...string) *victim {
	t.Helper()
	return victimOf(t, nil, env...)
}

// victimOf is newVictim over TLS, unless there is no authority.
func victimOf(t *testing.T, ca *certstest.Authority, more ...string) *victim {
	t.Helper()
	env := append([]string{"LOCKD_STORE_KIND=memory", memoryLimit}, more...)
	opts := []client.Option{client.WithSessionTTL(6 * time.Second)}
	if ca != nil {
		cert, key := ca.Issue(t, time.Hour, "127.0.0.1").Files(t)
		env = append(env, "LOCKD_LISTEN_TLS_CERT_FILE="+cert, "LOCKD_LISTEN_TLS_KEY_FILE="+key)
		opts = append(opts, client.WithTLS(client.TLS{CACert: ca.File(t)}))
	}
	v := &victim{Lockd: harness.StartLockdOn(t, lockdBin, env...)}
	c := v.Dial(t, opts...)
	for i := range leases {
		l, err := c.Lock(t.Context(), fmt.Sprint("held ", i))
		harness.Must(t, err)
		v.locks = append(v.locks, l)
	}
	return v
}

// suffer has attackers at work, each with a stop. Meanwhile probes are asked, and leases are renewed.
func (v *victim) suffer(t *testing.T, attackers ...func(ctx context.Context)) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), harness.Patience)
	defer stop()
	began := time.Now()
	var all sync.WaitGroup
	for _, a := range attackers {
		all.Go(func() { a(ctx) })
	}
	valid := v.locks[0].Deadline()
	goesOn := func() bool {
		renewed := v.locks[0].Deadline().After(valid) // while it was attacked
		return time.Since(began) < *long || ctx.Err() == nil && (!renewed || v.enough != nil && !v.enough())
	}
	for ; goesOn(); time.Sleep(50 * time.Millisecond) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, text := v.Get(path); code != 200 {
				t.Errorf("%s: got %d %s", path, code, text)
			}
		}
	}
	stop()
	all.Wait()
	if !v.locks[0].Deadline().After(valid) {
		t.Error("the leases of somebody else were not renewed during the attack")
	}
	for _, l := range v.locks {
		select {
		case <-l.Lost():
			t.Errorf("a lease of somebody else was lost: %v", l.Err())
		default:
		}
	}
	if memory := v.memory(t); memory > mostMemory {
		t.Errorf("lockd has %d MiB", memory>>20)
	}
}

// memory is the most that lockd had.
func (v *victim) memory(t *testing.T) int {
	t.Helper()
	for line := range strings.Lines(v.proc(t, "status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb << 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

func (v *victim) proc(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprint("/proc/", v.PID(), "/", file))
	harness.Must(t, err)
	return string(b)
}

// asking appends what is sent for a new stream.
type asking func(b []byte, stream uint32) []byte

// flood repeats what ask gives for each next stream, over some connections, as fast as lockd reads it.
func flood(t *testing.T, to string, connections int, ask asking) (all []func(ctx context.Context)) {
	for range connections {
		a := attack(t, "127.0.0.2", to)
		all = append(all, func(ctx context.Context) {
			defer context.AfterFunc(ctx, func() { _ = a.Close() })()
			for id := uint32(1); ctx.Err() == nil; {
				var b []byte
				for range 64 {
					b = ask(b, id)
					id += 2
				}
				if !a.say(b) {
					<-ctx.Done()
				}
			}
		})
	}
	return all
}

var floods = map[string]asking{
	"calls that are reset": func(b []byte, stream uint32) []byte {
		return frame(frame(b, headers, endHeaders, stream, call(acquire)), reset, 0, stream, []byte{0, 0, 0, 8})
	},
	"calls that nobody knows": func(b []byte, stream uint32) []byte {
		return frame(b, headers, endHeaders|1, stream, call("/no/where"))
	},
	"large headers": func(b []byte, stream uint32) []byte {
		return frame(b, headers, endHeaders, stream, append(call(acquire), bytes.Repeat([]byte{0x90}, 16<<10-200)...))
	},
	"settings": func(b []byte, _ uint32) []byte {
		return frame(b, settings, 0, 0, bytes.Repeat([]byte{0, 4, 0, 0, 255, 255, 0, 4, 0, 1, 0, 0}, 1300))
	},
}

// Frames that ask for nothing take no lease, no memory and no probe from the others.
func TestFramesThatAskForNothingHarmNobody(t *testing.T) {
	for name, ask := range floods {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t)
			v.suffer(t, flood(t, v.Addr, 8, ask)...)
		})
	}
}

// Messages that never end take no more memory than there is, whether they come over one connection or many, or over
// TLS.
func TestMessagesThatNeverEndFillNoMemory(t *testing.T) {
	ca := certstest.NewAuthority(t, "attacks")
	for name, c := range map[string]struct {
		connections int
		over        *certstest.Authority
	}{"one connection": {1, nil}, "eight": {8, nil}, "TLS": {2, ca}} {
		t.Run(name, func(t *testing.T) {
			v := victimOf(t, c.over)
			v.enough = func() bool { return v.Metric(`lockd_calls_cut_total{reason="connection"}`) > 0 }
			var all []func(ctx context.Context)
			for i := range c.connections {
				all = append(all, attackOver(t, c.over, fmt.Sprint("127.0.0.", 2+i), v.Addr).neverEnd)
			}
			v.suffer(t, all...)
			if !v.enough() {
				t.Error("no call was ended: too little happened for this test to mean anything")
			}
		})
	}
}

// neverEnd sends all but the end of many messages at a time, and then waits.
func (a attacker) neverEnd(ctx context.Context) {
	const calls, size, part = 250, 4 << 20, 16 << 10
	defer context.AfterFunc(ctx, func() { _ = a.Close() })()
	defer func() { <-ctx.Done() }()
	for i := range calls {
		a.say(frame(nil, headers, endHeaders, uint32(2*i+1), call(acquire)))
	}
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	zeros := make([]byte, part)
	for i := range calls {
		a.say(frame(nil, data, 0, uint32(2*i+1), prefix))
	}
	for range size/part - 1 {
		for i := range calls {
			if !a.say(frame(nil, data, 0, uint32(2*i+1), zeros)) {
				return
			}
		}
	}
}
