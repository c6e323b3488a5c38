package pipe

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// selfSigned is the configuration of a server that nobody checks.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return &tls.Config{ //nolint:gosec // any version will do
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}},
	}
}

// A server stops reading, and what was written fills all buffers. The end of the connection must not wait for it: TLS
// by itself would, for 5 s, to say farewell.
func TestAConnectionWithTLSEndsWithoutAFarewell(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	over := make(chan struct{})
	defer close(over)
	config := selfSigned(t)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		defer conn.Close()
		_ = tls.Server(conn, config).Handshake() // the client says what is wrong
		<-over
	}()
	wire := Wire{TLS: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nobody else is there
	conn, err := wire.Dial(t.Context(), "tcp", l.Addr().String())
	must(t, err)
	below := conn.(interface{ NetConn() net.Conn }).NetConn() // TLS says no farewell after an error of its own
	_ = below.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := below.Write(make([]byte, 64<<20)); err == nil {
		t.Fatal("64 MB were written, and nobody read them")
	}
	_ = below.SetDeadline(time.Time{})
	begun := time.Now()
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("to close it took %v", took)
	}
}
