package pipe

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// CheckReplies lets a client of go-redis read only replies that are well-formed, not too long, and fit. go-redis would
// panic at others, or allocate whatever length they claim. If fit is nil, all are fit.
func CheckReplies(o *redis.Options, fit func(reply any) bool) {
	dial, timeout := o.Dialer, o.DialTimeout
	if dial == nil {
		dial = Wire{TLS: o.TLSConfig}.Dial
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, timeout, errSetupTimeout)
		defer cancel()
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		w := &checked{Conn: c, fit: fit}
		w.in.Reader = bufio.NewReaderSize(io.TeeReader(c, &w.came), readBuffer)
		return w, nil
	}
}

// checked is a connection that passes on whole replies only, if they are well-formed and fit.
type checked struct {
	net.Conn
	fit  func(reply any) bool
	in   reader
	came bytes.Buffer // and was not passed on yet
}

// Read implements net.Conn.
func (c *checked) Read(b []byte) (int, error) {
	if c.came.Len() == c.in.Buffered() {
		switch reply, err := c.in.reply(); {
		case err != nil:
			return 0, err
		case c.fit != nil && !c.fit(reply):
			return 0, errMalformed
		}
	}
	return c.came.Read(b[:min(len(b), c.came.Len()-c.in.Buffered())])
}

// OfChannels says whether go-redis can read a reply on a connection that is subscribed to channels.
func OfChannels(reply any) bool {
	all, isList := reply.([]any)
	if !isList {
		return true
	}
	if len(all) < 2 {
		return false
	}
	kind, ok := all[0].(string)
	_, named := all[1].(string)
	switch {
	case strings.HasSuffix(kind, "subscribe"):
		ok = len(all) > 2
		if ok {
			_, ok = all[2].(int64)
		}
	case strings.HasSuffix(kind, "message"):
		ok = named && len(all) > 2 && kind != "pmessage" // nobody asks for that
		if ok {
			keys, _ := all[2].([]any)
			ok = !slices.ContainsFunc(keys, func(k any) bool { _, isText := k.(string); return !isText })
		}
	case kind == "pong":
		ok = named
	}
	return ok
}
