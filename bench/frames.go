package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// frames is a link that writes the frames of HTTP/2 itself.
type frames struct {
	conn   net.Conn
	in     bytes.Buffer // of messages that have not come as a whole
	mu     sync.Mutex   // guards writing
	framer *http2.Framer
}

const (
	leanStream = 1
	// grpcPrefix is what comes before a message: whether it is compressed, and its length.
	grpcPrefix = 5
)

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

// connectFrames connects and sends the first message, all in one write.
func connectFrames(addr string, first *lockdv1.SessionRequest) (link, error) {
	conn, err := (&net.Dialer{Timeout: leanWait}).Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&out, nil)
	err = errors.Join(
		f.WriteSettings(),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: leanStream, BlockFragment: leanHeaders(), EndHeaders: true}),
		writeMessage(f, first))
	if err == nil {
		_, err = conn.Write(out.Bytes())
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	l := &frames{conn: conn, framer: http2.NewFramer(conn, bufio.NewReaderSize(conn, ioBuffer))}
	l.framer.SetReuseFrames()
	return l, nil
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

func (l *frames) send(m *lockdv1.SessionRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return writeMessage(l.framer, m)
}

func (l *frames) close() { _ = l.conn.Close() } // there is nothing left to fail

// receive reads until a message is there as a whole.
func (l *frames) receive() (*lockdv1.SessionResponse, error) {
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

func (l *frames) readFrame() error {
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
