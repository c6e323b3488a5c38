package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// lean is a client with a connection, a session and a lease, that writes the frames of HTTP/2 itself. A gRPC client
// needs more of a processor to connect than lockd needs to take it: with ten thousand of them on its machine they are
// what is measured.
type lean struct {
	crowd *leanMovers
	name  string

	mu      sync.Mutex // guards the fields below, and writing
	conn    net.Conn
	framer  *http2.Framer
	in      bytes.Buffer // of messages that have not come as a whole
	session *lockdv1.Opened
	hold    *lockdv1.Hold
	epoch   uint64
}

// leanMovers is many of them.
type leanMovers struct {
	addrs   []string
	clients []*lean
	moved   chan time.Time
	over    atomic.Bool
	ended   atomic.Int64 // sessions
	lost    atomic.Int64 // locks
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

const (
	leanStream = 1
	// lastLean is the last request id that a client uses.
	lastLean = 2
	// leanWait bounds the wait for an answer, as in the SDK.
	leanWait = sessionTTL / 3
	// grpcPrefix is what comes before a message: whether it is compressed, and its length.
	grpcPrefix = 5
)

var errLean = errors.New("not what was expected")

// leanHeaders are those of the call.
func leanHeaders() []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/lockd.v1.SessionService/Session"},
		{Name: ":authority", Value: "lockd"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	} {
		_ = enc.WriteField(f) // into memory
	}
	return b.Bytes()
}

// dial connects and sends the first message, all in one write, and waits for the answer to it.
func (l *lean) dial(addr string, open *lockdv1.Open) error {
	conn, err := (&net.Dialer{Timeout: leanWait}).Dial("tcp", addr)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&out, nil)
	err = errors.Join(
		f.WriteSettings(),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: leanStream, BlockFragment: leanHeaders(), EndHeaders: true}),
		writeMessage(f, &lockdv1.SessionRequest{
			RequestId: cmp.Or(open.GetResume().GetLastRequestId(), 1),
			Message:   &lockdv1.SessionRequest_Open{Open: open},
		}))
	l.mu.Lock()
	l.conn, l.framer = conn, http2.NewFramer(conn, bufio.NewReaderSize(conn, ioBuffer))
	l.framer.SetReuseFrames()
	l.mu.Unlock()
	l.in.Reset()
	if err == nil {
		_, err = conn.Write(out.Bytes())
	}
	if err == nil {
		err = l.greeted(conn)
	}
	if err != nil {
		_ = conn.Close()
	}
	return err
}

// greeted waits for Opened.
func (l *lean) greeted(conn net.Conn) error {
	_ = conn.SetReadDeadline(time.Now().Add(leanWait))
	m, err := l.receive()
	if err != nil {
		return err
	}
	opened := m.GetOpened()
	if opened == nil {
		return fmt.Errorf("%w: %v", errLean, m)
	}
	if opened.GetSessionId() != "" && l.session == nil {
		l.session = opened
	}
	l.crowd.lost.Add(int64(len(opened.GetLost())))
	return conn.SetReadDeadline(time.Time{})
}

func writeMessage(f *http2.Framer, m *lockdv1.SessionRequest) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	framed := make([]byte, grpcPrefix, grpcPrefix+len(data))
	binary.BigEndian.PutUint32(framed[1:], uint32(len(data)))
	return f.WriteData(leanStream, false, append(framed, data...))
}

func (l *lean) send(m *lockdv1.SessionRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return writeMessage(l.framer, m)
}

// receive reads until a message is there as a whole.
func (l *lean) receive() (*lockdv1.SessionResponse, error) {
	for {
		if b := l.in.Bytes(); len(b) >= grpcPrefix {
			if end := grpcPrefix + int(binary.BigEndian.Uint32(b[1:])); len(b) >= end {
				m := new(lockdv1.SessionResponse)
				err := proto.Unmarshal(b[grpcPrefix:end], m)
				l.in.Next(end)
				return m, err
			}
		}
		if err := l.readFrame(); err != nil {
			return nil, err
		}
	}
}

func (l *lean) readFrame() error {
	frame, err := l.framer.ReadFrame()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch f := frame.(type) {
	case *http2.DataFrame:
		l.in.Write(f.Data())
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return l.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			return l.framer.WritePing(true, f.Data)
		}
	case *http2.HeadersFrame:
		if f.StreamEnded() {
			return fmt.Errorf("%w: the call has ended", errLean)
		}
	case *http2.GoAwayFrame, *http2.RSTStreamFrame:
		return fmt.Errorf("%w: %v", errLean, f)
	}
	return nil
}

// begin opens a session and takes a lock.
func (l *lean) begin() error {
	open := &lockdv1.Open{ClientName: "lean", Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}}
	if err := l.dial(l.crowd.addrs[0], open); err != nil {
		return err
	}
	l.epoch = 1
	if err := l.send(&lockdv1.SessionRequest{RequestId: lastLean, Message: &lockdv1.SessionRequest_Acquire{
		Acquire: &lockdv1.Acquire{Name: l.name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE},
	}}); err != nil {
		return err
	}
	m, err := l.receive()
	if err != nil {
		return err
	}
	holds := m.GetGranted().GetHolds()
	if len(holds) != 1 || l.session.GetResumeToken() == "" {
		return fmt.Errorf("%w: %v", errLean, m)
	}
	l.hold = holds[0]
	return nil
}

// live reads, and goes on at the other replica when the stream ends, until the session is over.
func (l *lean) live() {
	for !l.crowd.over.Load() {
		m, err := l.receive()
		if err == nil {
			if m.GetLost() != nil {
				l.crowd.lost.Add(1)
			}
			continue
		}
		_ = l.conn.Close()
		if err := l.resume(); err != nil {
			if !l.crowd.over.Load() {
				l.crowd.ended.Add(1)
			}
			return
		}
		l.crowd.moved <- time.Now()
	}
}

// resume makes attempts at all addresses in turn, the other one first, until the lease has ended.
func (l *lean) resume() (err error) {
	for end, n := time.Now().Add(sessionTTL), 1; time.Now().Before(end) && !l.crowd.over.Load(); n++ {
		l.epoch++
		open := &lockdv1.Open{ClientName: "lean", Resume: &lockdv1.Resume{
			SessionId: l.session.GetSessionId(), ResumeToken: l.session.GetResumeToken(), Epoch: l.epoch,
			LastRequestId: lastLean, Holds: []*lockdv1.HeldLock{{Hold: l.hold, HoldCount: 1, Auto: true}},
		}}
		if err = l.dial(l.crowd.addrs[n%len(l.crowd.addrs)], open); err == nil {
			return nil
		}
		time.Sleep(rand.N(100 * time.Millisecond))
	}
	return cmp.Or(err, errLean)
}

func (m *leanMovers) open(ctx context.Context, addrs []string, n int) error {
	m.addrs, m.moved, m.clients = addrs, make(chan time.Time, n), make([]*lean, n)
	ctx, m.stop = context.WithCancel(ctx)
	slots, errs := make(chan struct{}, 64), make(chan error, n)
	var opening sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		opening.Go(func() {
			defer func() { <-slots }()
			l := &lean{crowd: m, name: fmt.Sprint("mover:", i)}
			m.clients[i] = l
			if err := l.begin(); err != nil {
				errs <- err
				return
			}
			m.wg.Go(l.live)
		})
	}
	opening.Wait()
	m.wg.Go(func() { m.beat(ctx) })
	close(errs)
	return <-errs
}

// beat sends the heartbeats of all, spread over their interval.
func (m *leanMovers) beat(ctx context.Context) {
	tick := time.NewTicker(sessionTTL / 3 / 100)
	defer tick.Stop()
	for n := uint64(0); ; n++ {
		for i := int(n % 100); i < len(m.clients); i += 100 {
			// If it cannot be sent the stream has ended, which its reader sees.
			_ = m.clients[i].send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Heartbeat{
				Heartbeat: &lockdv1.Heartbeat{SentId: n/100 + 1},
			}})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (m *leanMovers) who() string { return "lean clients" }

func (m *leanMovers) lose() <-chan time.Time { return m.moved }

func (m *leanMovers) gone() (sessions, locks int) { return int(m.ended.Load()), int(m.lost.Load()) }

func (m *leanMovers) close() {
	m.over.Store(true)
	m.stop()
	for _, l := range m.clients {
		if l != nil {
			l.mu.Lock()
			if l.conn != nil {
				_ = l.conn.Close()
			}
			l.mu.Unlock()
		}
	}
	m.wg.Wait()
}
