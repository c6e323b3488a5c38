package client

import (
	"fmt"
	"slices"
	"time"
)

// WithTTL returns a Client like c with another session TTL, see WithSessionTTL. It is for a lock that must be free five
// seconds after its holder crashed, in a program whose other locks outlive a pause of a minute. The Client has its own
// session, with a connection, heartbeats, limits and holders of its own: to it a lock of c is held by somebody else.
// There is one such Client for each TTL, shared by all who ask for it and closed with c. If the server does not allow
// ttl, the first use returns ErrInvalid.
func (c *Client) WithTTL(ttl time.Duration) (*Client, error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("a TTL of %v: %w", ttl, ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if other := c.ofTTL[ttl]; other != nil && !other.isClosed() {
		return other, nil
	}
	other, err := Dial(c.addr, slices.Concat(c.opts, []Option{WithSessionTTL(ttl)})...)
	if err != nil {
		return nil, err
	}
	if c.ofTTL == nil {
		c.ofTTL = make(map[time.Duration]*Client)
	}
	c.ofTTL[ttl] = other
	return other, nil
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
