package web

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The bounds of what a client of gRPC may send until its connection is closed.
const (
	mixupTime   = 5 * time.Second
	mixupFrames = 64
)

// hijackGRPC answers a client that speaks HTTP/2 in clear text. The server has taken the first line of its preface for
// a request.
func hijackGRPC(key string, w http.ResponseWriter) {
	c, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // there is no connection to answer on
	}
	rest := make([]byte, len(http2.ClientPreface)-len("PRI * HTTP/2.0\r\n\r\n"))
	_ = c.SetDeadline(time.Now().Add(mixupTime))
	if _, err := io.ReadFull(buffered, rest); err == nil {
		answerFrames(key, c, buffered)
	}
	_ = c.Close()
}

// answerGRPC answers a client that chose HTTP/2 in its TLS handshake.
func answerGRPC(key string, c net.Conn, from io.Reader) {
	_ = c.SetDeadline(time.Now().Add(mixupTime))
	if _, err := io.ReadFull(from, make([]byte, len(http2.ClientPreface))); err == nil {
		answerFrames(key, c, from)
	}
	_ = c.Close()
}

// answerFrames answers each call with a status that says what is spoken here.
func answerFrames(key string, to io.Writer, from io.Reader) {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{
		{Name: ":status", Value: "200"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "grpc-status", Value: "12"}, // UNIMPLEMENTED
		{Name: "grpc-message", Value: fmt.Sprintf("HTTP/1.1 is spoken at this address (%s): gRPC is spoken at listen", key)},
	} {
		f.Sensitive = true // so that each block means the same
		_ = e.WriteField(f)
	}
	f := http2.NewFramer(to, from)
	f.SetMaxReadFrameSize(16 << 10)
	if f.WriteSettings() != nil {
		return
	}
	for range mixupFrames {
		frame, err := f.ReadFrame()
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				err = f.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			err = f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: frame.StreamID, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true,
			})
		case *http2.PingFrame:
			if !frame.IsAck() {
				err = f.WritePing(true, frame.Data)
			}
		}
		if err != nil {
			return
		}
	}
}
