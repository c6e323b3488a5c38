package pipe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// A server that greets with a length that cannot be, or that never ends, is one that is not there.
func TestAGreetingThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"$9999999999999\r\n", "$9223372036854775800\r\n", "*9223372036854775800\r\n", "*-5\r\n", "*2\r\n*-2\r\n",
		"$3\r\nabcd\r\n",
		"+" + strings.Repeat("a", 1<<20), strings.Repeat("*1\r\n", 1<<20),
	} {
		for _, to := range []string{"hello", "client", "info", "script"} {
			addr, _ := fake(t, func(c net.Conn, words []string) bool {
				if strings.EqualFold(words[0], to) {
					_, err := io.WriteString(c, reply)
					return err == nil
				}
				return greets(c, words)
			})
			o := redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true}
			d := NewDialer(o, "test", time.Minute, NewTrouble(zap.NewNop(), false))
			d.Unended, d.Load, d.Scripts = new(Unended), true, map[string]string{"sha": "return 1"}
			if _, err := d.dial(context.Background(), Window); !errors.Is(err, ErrNotConnected) {
				t.Errorf("%.40q to %s: got %v", reply, to, err)
			}
		}
	}
}

// What is well-formed is passed on as it is, however long, and however many replies come together.
func TestRepliesAreCheckedAndPassedOnUnchanged(t *testing.T) {
	t.Parallel()
	all := "+OK\r\n$-1\r\n*3\r\n:1\r\n$100000\r\n" + strings.Repeat("b", 100_000) + "\r\n*-1\r\n-ERR no\r\n*0\r\n"
	near, far := net.Pipe()
	defer near.Close()
	go func() {
		_, _ = io.WriteString(far, all)
		_ = far.Close()
	}()
	o := redis.Options{DialTimeout: time.Minute, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return near, nil
	}}
	CheckReplies(&o, nil)
	c, err := o.Dialer(t.Context(), "", "")
	must(t, err)
	if got, err := io.ReadAll(c); err != nil || string(got) != all {
		t.Errorf("got %d bytes of %d: %v", len(got), len(all), fmt.Sprint(err))
	}
}

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
