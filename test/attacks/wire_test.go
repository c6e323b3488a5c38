package attacks

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

// The frames of HTTP/2 that an attacker needs.
const (
	data, headers, reset, settings = 0, 1, 3, 4
	endHeaders                     = 4
)

const acquire = "/lockd.v1.LockService/Acquire"

// frame appends a frame.
func frame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// call is the header block of a call. Each is complete in itself, so that streams need no order among them.
func call(path string) (b []byte) {
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", path},
		{":authority", "lockd"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		b = append(b, 0, byte(len(f[0])))
		b = append(b, f[0]...)
		b = append(b, byte(len(f[1])))
		b = append(b, f[1]...)
	}
	return b
}

// attacker is a connection that speaks HTTP/2 by hand. What it is told, it does not read.
type attacker struct{ net.Conn }

func attack(t *testing.T, from, to string) attacker {
	t.Helper()
	return attackOver(t, nil, from, to)
}

// attackOver is attack over TLS, unless there is no authority.
func attackOver(t *testing.T, ca *certstest.Authority, from, to string) attacker {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", to)
	harness.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if ca != nil {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca.PEM())
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
	return a
}

// say sends, and says whether it could. lockd may read late or not at all.
func (a attacker) say(b []byte) bool {
	_, err := a.Write(b)
	return err == nil
}
