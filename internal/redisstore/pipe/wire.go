package pipe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// keepAlive is how often TCP asks whether the other side lives.
const keepAlive = 30 * time.Second

var errHandshake = errors.New("TLS handshake")

// Wire makes connections for TCP or TLS.
type Wire struct {
	// TLS is nil for plain text. Without a ServerName the certificate must have the host of the address.
	TLS *tls.Config
	// Wrap is given the connection for TCP, before TLS. It may be nil.
	Wrap func(net.Conn) net.Conn
}

// Dial makes the connection for TCP and TLS, within ctx.
func (w Wire) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if w.Wrap != nil {
		conn = w.Wrap(conn)
	}
	if w.TLS == nil {
		return conn, nil
	}
	secure := tls.Client(conn, w.tlsFor(addr))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the error before counts
		return nil, fmt.Errorf("%w: %w", errHandshake, err)
	}
	return abrupt{secure}, nil
}

// abrupt ends a connection at once. TLS would first say farewell, and wait up to 5 s for a server that does not read,
// while others wait for the end of the connection.
type abrupt struct{ *tls.Conn }

// Close implements net.Conn.
func (c abrupt) Close() error { return c.NetConn().Close() }

// tlsFor is the configuration for one address.
func (w Wire) tlsFor(addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if w.TLS.ServerName != "" || err != nil {
		return w.TLS
	}
	c := w.TLS.Clone()
	c.ServerName = host
	return c
}
