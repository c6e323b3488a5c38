package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockd-io/lockd/internal/lock"
)

// Config says which Redis, and how to use it. A zero field is its default.
type Config struct {
	// URL is redis://, rediss:// or unix://. The fields below, up to TLS, override its parts.
	URL      string
	Addr     string // host:port
	DB       int
	Username string
	Password string
	TLS      *tls.Config

	// Prefix stands in front of each name in Redis. If it has braces, they decide the cluster slot of all locks.
	Prefix string
	// FenceTTL is how long the last fence of a name is kept after its last grant. Default 7 days. It must be longer
	// than any lease.
	FenceTTL time.Duration
	// OpTimeout bounds each operation. Default 1s.
	OpTimeout time.Duration
	// ConnectTimeout bounds making a connection, with all its round trips. Default 5s.
	ConnectTimeout time.Duration
	// PoolSize is how many connections renewals use. Default 4. All other operations share two.
	PoolSize int
	// Linger is how long a channel stays subscribed after its last listener left. Default 5s. A busy name is listened
	// to again and again.
	Linger time.Duration
	// HearTimeout is how often the connection for channels is asked whether it lives, and how long it may take to
	// answer. Default 3s.
	HearTimeout time.Duration

	// Of tests: from how many on singles go as one call, and what happens to batches.
	fewTogether int
	hook        redis.Hook
}

const (
	defaultFenceTTL    = 7 * 24 * time.Hour
	defaultOpTimeout   = time.Second
	defaultConnect     = 5 * time.Second
	defaultPoolSize    = 4
	defaultLinger      = 5 * time.Second
	defaultHearTimeout = 3 * time.Second

	// maxQueued bounds the operations that wait for a place in the pipeline. More are refused as unavailable.
	maxQueued = 100_000
)

func (c Config) withDefaults() Config {
	c.FenceTTL = cmp.Or(c.FenceTTL, defaultFenceTTL)
	c.OpTimeout = cmp.Or(c.OpTimeout, defaultOpTimeout)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, defaultConnect)
	c.PoolSize = cmp.Or(c.PoolSize, defaultPoolSize)
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.HearTimeout = cmp.Or(c.HearTimeout, defaultHearTimeout)
	c.fewTogether = cmp.Or(c.fewTogether, fewTogether)
	return c
}

// check says whether names with the prefix can be locks, and all keys of a name are in one cluster slot.
func (c Config) check() error {
	if lock.Reserved(c.Prefix) {
		return fmt.Errorf("prefix %q: helper keys of locks begin like this", c.Prefix)
	}
	open, shut := strings.Index(c.Prefix, "{"), strings.Index(c.Prefix, "}")
	if open < 0 && shut < 0 || open >= 0 && shut > open+1 {
		return nil
	}
	return fmt.Errorf("prefix %q: braces must enclose something", c.Prefix)
}

// options are those of a client. The caller gives it its pools.
func (c Config) options() (*redis.Options, error) {
	o := &redis.Options{}
	if c.URL != "" {
		var err error
		if o, err = redis.ParseURL(c.URL); err != nil {
			return nil, fmt.Errorf("redis URL: %w", withoutURL(err))
		}
	}
	o.Addr = cmp.Or(c.Addr, o.Addr)
	o.DB = cmp.Or(c.DB, o.DB)
	o.Username = cmp.Or(c.Username, o.Username)
	o.Password = cmp.Or(c.Password, o.Password)
	if c.TLS != nil {
		o.TLSConfig = c.TLS
	}
	if o.Addr == "" {
		return nil, errors.New("redis: neither a URL nor an address is configured")
	}
	o.MaxRetries = -1   // retrying is the broker's decision
	o.DialerRetries = 1 // likewise
	o.Protocol = 2      // pushed messages of RESP3 are of no use here
	o.DialTimeout = c.ConnectTimeout
	o.ReadTimeout = c.OpTimeout
	o.WriteTimeout = c.OpTimeout
	o.PoolTimeout = c.OpTimeout
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true // it would take a round trip of its own
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return o, nil
}

// withoutURL takes the URL out of an error: there may be a password in it.
func withoutURL(err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		return bad.Err
	}
	return err
}

// listingClient carries what is listed.
func (c Config) listingClient(o redis.Options) *redis.Client {
	o.ClientName = "lockd"
	return redis.NewClient(&o)
}

// hearingClient has one connection, which hears channels. Redis's number of it is kept in id.
func (c Config) hearingClient(o redis.Options, id *atomic.Int64) *redis.Client {
	o.ClientName = "lockd-hear"
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		n, err := cn.ClientID(ctx).Result()
		id.Store(n)
		return err
	}
	return redis.NewClient(&o)
}

// dialer makes the connections of a pipeline.
func (c Config) dialer(o redis.Options, name string, t *trouble) dialer {
	d := dialer{db: o.DB, name: name, timeout: c.ConnectTimeout, trouble: t}
	o.DB, o.ClientName = 0, "" // go-redis would tell them in a round trip of its own
	o.PoolSize, o.PipelinePoolSize, o.MinIdleConns = 2, -1, 0
	o.ReadTimeout, o.WriteTimeout = c.ConnectTimeout, c.ConnectTimeout // of a batch: that of its ctx
	o.ConnMaxIdleTime, o.ConnMaxLifetime = -1, -1
	d.options = o
	return d
}
