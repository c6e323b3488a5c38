package inbound

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// put appends a frame.
func put(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// begun is a call with a message of which only a part is there.
func begun(b []byte, stream uint32, size, part int) []byte {
	b = put(b, frameHeaders, flagEndHeaders, stream, []byte("headers"))
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	return put(b, frameData, 0, stream, append(prefix, make([]byte, part)...))
}

// ended is what gRPC is told of a call to end.
func ended(stream uint32) []byte { return put(nil, frameWindow, 0, stream, make([]byte, 4)) }

// link is a connection, with both its ends.
type link struct {
	*Conn
	client net.Conn
	read   chan []byte // what gRPC reads, until err
	err    chan error  // size 1
}

// A connection that causes little work lives on beside any number of others of its address that cause much.
func TestLittleWorkIsPaidForSoon(t *testing.T) {
	watched(t, Limits{}, func(in *Intake, _ func() *link) {
		const here = ""
		flood := time.Duration(0)
		for range 2000 {
			flood = in.Spend(here, 20*time.Millisecond)
		}
		if flood < 5*time.Minute {
			t.Errorf("one of those that cause much waits for %v", flood)
		}
		if wait := in.Spend(here, settleAt); wait > 2*time.Second {
			t.Errorf("one that causes little waits for %v", wait)
		}
		time.Sleep(mostDebt)
		if wait := in.Spend(here, settleAt); wait > time.Duration(float64(2*settleAt)/Share) {
			t.Errorf("after %v the address still waits for %v", mostDebt, wait)
		}
	})
}

// watched runs a test in a bubble.
func watched(t *testing.T, l Limits, test func(in *Intake, open func() *link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, _ := observer.New(zap.WarnLevel)
		in := New(l, zap.NewNop(), prometheus.NewRegistry())
		in.log = zap.New(core, zap.Hooks(func(zapcore.Entry) error { in.Spend("", 0); return nil })) // mu is free
		test(in, func() *link {
			client, server := net.Pipe()
			k := &link{Conn: in.Watch(server), client: client, read: make(chan []byte, 10_000), err: make(chan error, 1)}
			go func() {
				for {
					b := make([]byte, 8<<10)
					n, err := k.Read(b)
					if err != nil {
						k.err <- err
						_ = k.Close()
						return
					}
					k.read <- b[:n]
				}
			}()
			go func() { _, _ = io.Copy(io.Discard, client) }()
			t.Cleanup(func() { _, _ = client.Close(), k.Close() })
			k.say(t, put([]byte(greeting), frameSettings, 0, 0, nil))
			return k
		})
	})
}

func (k *link) say(t *testing.T, b []byte) {
	t.Helper()
	go func() { _, _ = k.client.Write(b) }()
	synctest.Wait()
}

// heard is all that gRPC has read since the last time.
func (k *link) heard() (all []byte) {
	synctest.Wait()
	for len(k.read) > 0 {
		all = append(all, <-k.read...)
	}
	return all
}

func (in *Intake) total() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.all.held
}

var wide = Limits{Connection: 1 << 20, Address: 1 << 20, All: 1 << 20, Time: 20 * time.Second}

func TestTheOldestMessageEndsWhenTooMuchArrives(t *testing.T) {
	for name, l := range map[string]Limits{
		"connection": {Connection: 100 << 10, Address: 1 << 20, All: 1 << 20, Time: time.Hour},
		"address":    {Connection: 1 << 20, Address: 100 << 10, All: 1 << 20, Time: time.Hour},
		"all":        {Connection: 1 << 20, Address: 1 << 20, All: 100 << 10, Time: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, l, func(in *Intake, open func() *link) {
				k := open()
				for id := uint32(1); id <= 5; id += 2 {
					k.say(t, begun(nil, id, 1<<20, 10<<10)) // 16 KiB for the call, and 16 for the frame
				}
				if got := k.heard(); bytes.Contains(got, ended(1)) {
					t.Fatal("a call ended too early")
				}
				k.say(t, begun(nil, 7, 1<<20, 10<<10))
				if got := k.heard(); !bytes.HasSuffix(got, ended(1)) {
					t.Errorf("the oldest call did not end; gRPC read % x", got[max(0, len(got)-20):])
				}
				if most := int64(100 << 10); in.total() > most {
					t.Errorf("%d bytes are held", in.total())
				}
			})
		})
	}
}

func TestAMessageThatTakesTooLongEnds(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		slow, silent := open(), open()
		slow.say(t, begun(nil, 1, 1000, 10))
		silent.say(t, put(nil, frameHeaders, flagEndHeaders, 1, nil))
		done := put(nil, frameHeaders, flagEndHeaders, 3, nil)
		slow.say(t, put(done, frameData, 0, 3, []byte{0, 0, 0, 0, 1, 9})) // a session that has nothing to say
		slow.heard()
		time.Sleep(wide.Time + 2*wide.Time/sweepPart)
		for _, k := range []*link{slow, silent} {
			if got := k.heard(); !bytes.HasSuffix(got, ended(1)) || bytes.Contains(got, ended(3)) {
				t.Errorf("gRPC read % x", got)
			}
		}
		slow.say(t, put(nil, 6, 0, 0, make([]byte, 8)))
		if got := slow.heard(); len(got) != headBytes+8 || len(slow.err) > 0 {
			t.Errorf("the connection does not live on: % x", got)
		}
		if in.total() != 0 {
			t.Errorf("%d bytes are held", in.total())
		}
	})
}

func TestWhoStopsInTheMiddleOfAFrameIsCut(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		k := open()
		all := begun(nil, 1, 1<<20, 1<<10)
		k.say(t, all[:len(all)-1])
		time.Sleep(wide.Time + 2*wide.Time/sweepPart + graceTime)
		synctest.Wait()
		select {
		case err := <-k.err:
			if !errors.Is(err, errTooMuch) {
				t.Error(err)
			}
		default:
			t.Error("the connection lives on")
		}
		if in.total() != 0 {
			t.Errorf("%d bytes are held", in.total())
		}
	})
}

// What is small in the message and large in memory is counted as it is in memory.
func TestManySmallFramesCountAsWhatTheyHold(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		k := open()
		k.say(t, begun(nil, 1, 1<<20, 0))
		before := in.total()
		var b []byte
		for range 100 {
			b = put(b, frameData, 0, 1, []byte{0})
		}
		k.say(t, b)
		if got := in.total() - before; got < 100*100 {
			t.Errorf("100 frames count %d", got)
		}
	})
}

// Calls that end as they should are work of no account, however the bytes come.
func TestHonestCallsOweNothing(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		k := open()
		before := k.owed.Load()
		var calls, answers []byte
		for id := uint32(1); id < 200; id += 2 {
			calls = put(calls, frameHeaders, flagEndHeaders, id, make([]byte, 60))
			padded := append([]byte{3}, []byte{0, 0, 0, 0, 2, 7, 7, 0, 0, 0}...)
			calls = put(calls, frameData, flagEndStream|flagPadded, id, padded)
			answers = put(answers, frameHeaders, flagEndHeaders, id, make([]byte, 10))
			answers = put(answers, frameData, 0, id, make([]byte, 10))
			answers = put(answers, frameHeaders, flagEndHeaders|flagEndStream, id, make([]byte, 3))
		}
		for len(calls) > 0 {
			n := min(7, len(calls))
			k.say(t, calls[:n])
			calls = calls[n:]
		}
		for len(answers) > 0 {
			n := min(5, len(answers))
			_, _ = k.Write(answers[:n])
			answers = answers[n:]
		}
		if got := time.Duration(k.owed.Load() - before); got > 100*20*costs[frameData].perByte {
			t.Errorf("100 calls owe %v", got)
		}
		if n := len(k.streams); n > 0 || in.total() != 0 {
			t.Errorf("%d calls and %d bytes are left", n, in.total())
		}
	})
}

// Whoever resets calls, or asks for what is refused, is read no faster than he pays, also over new connections; others
// of the same address are read at once.
func TestWorkWithoutARequestIsPaidFor(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		const calls = 50_000
		began := time.Now()
		for range 2 {
			k := open()
			var b []byte
			for id := uint32(1); id < calls; id += 2 {
				b = put(b, frameHeaders, flagEndHeaders, id, nil)
				b = put(b, frameReset, 0, id, make([]byte, 4))
			}
			go func() { _, _ = k.client.Write(b) }()
			for got := 0; got < len(b); {
				got += len(<-k.read)
			}
		}
		least := time.Duration(float64(calls*refusedCost.frame-Burst) / Share)
		if took := time.Since(began); took < least || took > least*5/4 {
			t.Errorf("%d resets took %v, want about %v", calls, took, least)
		}
		other, began := open(), time.Now()
		other.heard()
		other.say(t, put(nil, frameHeaders, flagEndHeaders|flagEndStream, 1, nil))
		if len(other.heard()) == 0 || time.Since(began) > 0 {
			t.Error("another connection waited")
		}
		_, _ = other.Write(put(nil, frameHeaders, flagEndHeaders|flagEndStream, 1, nil))
		if got := time.Duration(other.owed.Load()); got < refusedCost.frame {
			t.Errorf("a call that is refused owes %v", got)
		}
	})
}

// Who is refused as a stranger is read later, however little the frames of his calls cost.
func TestCallsOfStrangersArePaidFor(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		k := open()
		const calls, price = 1000, 250 * time.Microsecond
		began := time.Now()
		for id := uint32(1); id < 2*calls; id += 2 {
			k.say(t, put(nil, frameHeaders, flagEndHeaders|flagEndStream, id, nil))
			<-k.read
			_, _ = k.Write(put(nil, frameHeaders, flagEndHeaders|flagEndStream, id, nil))
			in.Spend(k.tenant, price)
		}
		least := time.Duration(float64(calls*price-Burst) / Share)
		if took := time.Since(began); took < least || took > 2*least {
			t.Errorf("%d calls took %v, want about %v", calls, took, least)
		}
	})
}

// A connection that is closed while it waits leaves nothing behind.
func TestAClosedConnectionHoldsNothing(t *testing.T) {
	watched(t, wide, func(in *Intake, open func() *link) {
		k := open()
		k.say(t, begun(nil, 1, 1<<20, 10<<10))
		if in.total() == 0 {
			t.Error("nothing is counted")
		}
		_ = k.Close()
		if in.total() != 0 {
			t.Errorf("%d bytes are held", in.total())
		}
	})
}

// BenchmarkSessionFrames parses frames as a busy session sends them.
func BenchmarkSessionFrames(b *testing.B) {
	in := New(wide, zap.NewNop(), prometheus.NewRegistry())
	client, server := net.Pipe()
	defer client.Close()
	c := in.Watch(server)
	c.parse(put([]byte(greeting), frameHeaders, flagEndHeaders, 1, nil))
	var chunk []byte
	for range 100 {
		chunk = put(chunk, frameData, 0, 1, append([]byte{0, 0, 0, 0, 60}, make([]byte, 60)...))
	}
	b.ReportAllocs()
	for b.Loop() {
		c.parse(chunk)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/frame")
}
