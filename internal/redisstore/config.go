package redisstore

import (
	"cmp"
	"crypto/tls"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/sentinel"
)

// Config says which Redis, and how to use it. A zero field is its default.
type Config struct {
	// Sentinel takes the place of Addr: each connection first asks the sentinels for the master. They have TLS if the
	// server has, and half of ConnectTimeout for an answer.
	Sentinel *Sentinel
	Addr     string // host:port
	DB       int
	Username string
	TLS      *tls.Config
	// PasswordNow is asked for the password of each new connection. It is nil without a password.
	PasswordNow func() string

	// Prefix stands in front of each name in Redis. If it has braces, they decide the cluster slot of all locks.
	Prefix string
	// FenceTTL is how long the last fence of a name is kept after its last grant. Default 7 days. It must be longer
	// than any lease.
	FenceTTL time.Duration
	// OpTimeout bounds each operation. Default 1s.
	OpTimeout time.Duration
	// ConnectTimeout bounds making a connection, with all its round trips. Default 5 times OpTimeout.
	ConnectTimeout time.Duration
	// HearTimeout is how often the connection for channels is checked, and how long Redis may take to answer then. Default
	// 3s.
	HearTimeout time.Duration
	// Linger is how long a channel stays subscribed after its last listener left, because a busy name soon has another
	// one. Default 5/3 of HearTimeout.
	Linger time.Duration

	// Replicas is how many replicas of Redis must acknowledge a grant before it is told. Default 0. The server must know
	// WAIT.
	Replicas int

	// InSlots says that the server is a node of a cluster: all keys of a call must be in one slot.
	InSlots bool
	// Sharded says that channels have slots, too: a message about a name goes only to the node that has the name.
	Sharded bool
	// DataKey returns the key of the id of the data. Default: layout.Data.
	DataKey func() string
	// DetectDataLoss has the Store find out whether the server may have forgotten holds. A majority must know that of its
	// members.
	DetectDataLoss bool
	// Asking says that the slot of the names is moving to this server, and that another node redirected us here.
	Asking bool

	// Unended are the connections that the next one has to end. Stores that use one server share it. Default: one of this
	// Store alone.
	Unended *pipe.Unended

	// Hook intercepts batches. It is for tests.
	Hook pipe.Hook

	// For tests: how many ordinary operations go as one call at least, and whether all tenants are one.
	fewTogether int
	oneTenant   bool
}

// Sentinel says which sentinels know the address.
type Sentinel = sentinel.Config

const (
	defaultFenceTTL    = 7 * 24 * time.Hour
	defaultOpTimeout   = time.Second
	defaultHearTimeout = 3 * time.Second
)

// WithDefaults is c with defaults for the fields that are zero.
func (c Config) WithDefaults() Config {
	c.FenceTTL = cmp.Or(c.FenceTTL, defaultFenceTTL)
	c.OpTimeout = cmp.Or(c.OpTimeout, defaultOpTimeout)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 5*c.OpTimeout)
	c.HearTimeout = cmp.Or(c.HearTimeout, defaultHearTimeout)
	c.Linger = cmp.Or(c.Linger, c.HearTimeout*5/3)
	if c.Unended == nil {
		c.Unended = new(pipe.Unended)
	}
	if c.DataKey == nil {
		c.DataKey = func() string { return layout.Data }
	}
	c.fewTogether = cmp.Or(c.fewTogether, fewTogether)
	return c
}

// options are those of a client, without its pools.
func (c Config) options() (*redis.Options, error) {
	o := &redis.Options{
		Addr: c.Addr, DB: c.DB, Username: c.Username, TLSConfig: c.TLS,
		MaxRetries:    -1, // retrying is the broker's decision
		DialerRetries: 1,  // likewise
		Protocol:      2,  // pushed messages of RESP3 are of no use here
		DialTimeout:   c.ConnectTimeout,
		ReadTimeout:   c.OpTimeout, WriteTimeout: c.OpTimeout, PoolTimeout: c.OpTimeout,
		ContextTimeoutEnabled:    true,
		DisableIdentity:          true, // it would take a round trip of its own
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if c.PasswordNow != nil {
		o.CredentialsProvider = func() (username, password string) { return c.Username, c.PasswordNow() }
	}
	if c.Sentinel != nil {
		o.Addr = c.Sentinel.Master // nobody connects to it
	}
	if o.Addr == "" {
		return nil, errors.New("redis: no address is configured")
	}
	return o, nil
}

// Client makes a client of the same server for what no operation of a Store does. The caller closes it.
func (c Config) Client() (*redis.Client, error) {
	o, err := c.WithDefaults().options()
	if err != nil {
		return nil, err
	}
	return c.listingClient(*o), nil
}

// guide changes o so that clients connect to the master that the sentinels name. It is nil without sentinels.
func (c Config) guide(o *redis.Options, log *zap.Logger) *sentinel.Guide {
	if c.Sentinel == nil {
		return nil
	}
	which := *c.Sentinel
	which.TLS, which.Timeout = o.TLSConfig, c.ConnectTimeout/2
	g := sentinel.New(which, log)
	o.Dialer, o.OnConnect = g.Dial, g.Greet
	return g
}

func (c Config) listingClient(o redis.Options) *redis.Client {
	o.ClientName = "lockd"
	o.MaxRetries = 1 // it only reads, so a connection that was cut meanwhile is no reason to fail
	pipe.CheckReplies(&o, nil)
	return redis.NewClient(&o)
}
