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
	// Sentinel takes the place of Addr: the master is asked for at each connection. The sentinels are spoken to over TLS
	// if the server is, and answer in half of the time of a connection.
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
	// HearTimeout is how often the connection for channels is asked whether it lives, and how long it may take to
	// answer. Default 3s.
	HearTimeout time.Duration
	// Linger is how long a channel stays subscribed after its last listener left: a busy name is listened to again and
	// again. Default 5/3 of HearTimeout.
	Linger time.Duration

	// Replicas is how many must acknowledge a grant before it is told. Default 0: none. The server must know WAIT.
	Replicas int

	// InSlots says that the server is a node of a cluster: all keys of a call must be in one slot.
	InSlots bool
	// Sharded says that channels have slots, too: what concerns one name is told to those who subscribed to its slot.
	Sharded bool
	// DataKey says where the id of the data is. Default: always at layout.Data.
	DataKey func() string
	// DetectDataLoss has it be known whether the server may have forgotten holds, as a majority must know of its members.
	DetectDataLoss bool
	// Asking says that the names asked for are on their way to the server from another node, which sent us here for
	// them.
	Asking bool

	// Unended are the connections that the next one has to end, where several Stores use one server. Default: those of
	// this Store.
	Unended *pipe.Unended

	// Hook is what happens to batches. It is for tests.
	Hook pipe.Hook

	// Of tests: from how many ordinary operations on they go as one call, and whether all tenants are one.
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

// WithDefaults has a default for each field that needs one.
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

// options are those of a client. The caller gives it its pools.
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

// Client is a client for questions that no operation of a Store asks.
func (c Config) Client() (*redis.Client, error) {
	o, err := c.WithDefaults().options()
	if err != nil {
		return nil, err
	}
	return c.listingClient(*o), nil
}

// guide has clients with some options connect to the master of the sentinels. It is nil without sentinels.
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

// listingClient carries what is listed.
func (c Config) listingClient(o redis.Options) *redis.Client {
	o.ClientName = "lockd"
	o.MaxRetries = 1 // it only reads, so a connection that was cut meanwhile is no reason to fail
	pipe.CheckReplies(&o, nil)
	return redis.NewClient(&o)
}
