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
	// DialTimeout bounds making a connection. Default 1s.
	DialTimeout time.Duration
	// PoolSize is how many connections renewals may use at the same time. Default 4. All other operations share one
	// connection, and a few more when it is slow.
	PoolSize int
	// Linger is how long a channel stays subscribed after its last listener left. Default 5s. A busy name is listened
	// to again and again.
	Linger time.Duration
	// HearTimeout is how often the connection for channels is asked whether it lives, and how long it may take to
	// answer. Default 3s.
	HearTimeout time.Duration
}

const (
	defaultFenceTTL    = 7 * 24 * time.Hour
	defaultOpTimeout   = time.Second
	defaultDialTimeout = time.Second
	defaultPoolSize    = 4
	defaultLinger      = 5 * time.Second
	defaultHearTimeout = 3 * time.Second

	// maxQueued bounds the operations that wait for a place in the pipeline. More are refused as unavailable.
	maxQueued = 100_000
)

func (c Config) withDefaults() Config {
	c.FenceTTL = cmp.Or(c.FenceTTL, defaultFenceTTL)
	c.OpTimeout = cmp.Or(c.OpTimeout, defaultOpTimeout)
	c.DialTimeout = cmp.Or(c.DialTimeout, defaultDialTimeout)
	c.PoolSize = cmp.Or(c.PoolSize, defaultPoolSize)
	c.Linger = cmp.Or(c.Linger, defaultLinger)
	c.HearTimeout = cmp.Or(c.HearTimeout, defaultHearTimeout)
	return c
}

// check says whether the prefix leaves all keys of a name in one cluster slot.
func (c Config) check() error {
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
	o.DialTimeout = c.DialTimeout
	o.ReadTimeout = c.OpTimeout
	o.WriteTimeout = c.OpTimeout
	o.PoolTimeout = c.OpTimeout
	o.ContextTimeoutEnabled = true
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

// pipelineClient carries the shared pipeline.
func (c Config) pipelineClient(o redis.Options) *redis.Client {
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

// directClient carries what load must not delay.
func (c Config) directClient(o redis.Options) *redis.Client {
	o.ClientName = "lockd-renew"
	o.PoolSize = c.PoolSize
	o.PipelinePoolSize = -1
	return redis.NewClient(&o)
}
