package attacks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"os"
	"time"
)

// The frames of HTTP/2 that an attacker needs.
const (
	data, headers, reset, settings, ping, continuation = 0, 1, 3, 4, 6, 9
	endStream, endHeaders                              = 1, 4
)

const acquire = "/lockd.v1.LockService/Acquire"

// frame appends a frame.
func frame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// call is the header block of a call, with or without an authorization. Each is complete in itself, so that streams
// need no order among them.
func call(path string, authorization ...string) (b []byte) {
	fields := [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "lockd"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	}
	for _, text := range authorization {
		fields = append(fields, [2]string{"authorization", text})
	}
	for _, f := range fields {
		b = append(b, 0, byte(len(f[0])))
		b = append(b, f[0]...)
		b = append(b, byte(len(f[1])))
		b = append(b, f[1]...)
	}
	return b
}

// attacker is a connection that speaks HTTP/2 by hand. What it is told, it does not read.
type attacker struct{ net.Conn }

// attack connects, over TLS if there is a file with an authority.
func attack(ctx context.Context, authority, from, to string) (attacker, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return attacker{}, err
	}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return attacker{}, err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		c = tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", NextProtos: []string{"h2"}})
	}
	a := attacker{c}
	go func() {
		for b := make([]byte, 64<<10); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}()
	a.say(frame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings, 0, 0, nil))
	return a, nil
}

// say sends, and says whether it could. lockd may read late or not at all.
func (a attacker) say(b []byte) bool {
	_, err := a.Write(b)
	return err == nil
}
