package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// frameRoom is what a request needs in its frame besides its name, holder and annotation.
const frameRoom = 1024

// minStreamAge is the least session.max_stream_age: to move costs more than to stay.
const minStreamAge = time.Second

// validate finds what is wrong with the values: what their tags forbid, and what depends on more than one of them.
func (c *Config) validate(p *problems) {
	for _, k := range keysOf(c) {
		if err := k.check(); err != nil {
			p.add(k.name, "%v", err)
		}
	}
	c.validateAddresses(p)
	c.ListenTLS.validate(p, "listen_tls", c.Listen)
	c.OpsTLS.validate(p, "ops_tls", c.OpsListen)
	c.AdminTLS.validate(p, "admin_tls", c.AdminListen)
	s, l, stop := c.Session, c.Limits, c.Shutdown
	p.unless(len(c.Replica) <= 128 && readable(c.Replica), "replica",
		"is %q, must be at most 128 bytes of UTF-8 without control characters", c.Replica)
	p.unless(s.MinTTL <= s.MaxTTL, "session.max_ttl",
		"is %v, must not be shorter than session.min_ttl (%v)", s.MaxTTL, s.MinTTL)
	p.unless(s.MinTTL <= s.TTL && s.TTL <= s.MaxTTL, "session.ttl",
		"is %v, must be from session.min_ttl (%v) to session.max_ttl (%v)", s.TTL, s.MinTTL, s.MaxTTL)
	p.unless(s.MaxStreamAge == 0 || s.MaxStreamAge >= minStreamAge, "session.max_stream_age",
		"is %v, must be 0, for no limit, or at least %v", s.MaxStreamAge, minStreamAge)
	p.unless(l.MinLease <= l.MaxLease, "limits.max_lease",
		"is %v, must not be shorter than limits.min_lease (%v)", l.MaxLease, l.MinLease)
	p.unless(stop.DrainWindow < stop.Timeout, "shutdown.timeout",
		"is %v, must be longer than shutdown.drain_window (%v)", stop.Timeout, stop.DrainWindow)
	needed := frameRoom + float64(l.NameBytes) + float64(l.HolderBytes) + float64(l.AnnotationBytes) // cannot overflow
	p.unless(needed <= float64(l.FrameBytes), "limits.frame_bytes",
		"is %d, must leave %d bytes besides a name, a holder and an annotation", l.FrameBytes, frameRoom)
	switch c.Store.Kind {
	case StoreMemory:
		p.unless(reflect.DeepEqual(c.Redis, Default().Redis), "redis",
			"is configured, but store.kind is %s; say %q, or use --redis",
			StoreMemory, StoreStandalone)
		p.unless(len(c.Redlock.Members) == 0, "redlock.members",
			"is configured, but store.kind is %s; say %q, or use --redlock",
			StoreMemory, StoreRedlock)
	case StoreStandalone:
		c.validateStandalone(p)
		c.validateRedis(p)
	case StoreSentinel:
		c.validateSentinel(p)
		c.validateRedis(p)
	case StoreCluster:
		p.servers("redis.cluster.addrs", c.Redis.Cluster.Addrs, StoreCluster)
		c.validateOneDatabase(p, "redis.db")
		validateTLS(p, c.Redis.TLS)
		c.validateRedis(p)
	case StoreRedlock:
		c.validateMembers(p)
		validateTLS(p, c.Redis.TLS)
		c.validateRedis(p)
	}
	c.validateUnused(p)
}

func (c *Config) validateAddresses(p *problems) {
	addrs := []struct{ key, addr string }{
		{"listen", c.Listen}, {"ops_listen", c.OpsListen}, {"admin_listen", c.AdminListen},
	}
	for i, a := range addrs {
		_, port, err := net.SplitHostPort(a.addr)
		nowhere := i > 0 && a.addr == ""
		p.unless(err == nil && isPort(port) || nowhere, a.key, "is %q, must be HOST:PORT or :PORT", a.addr)
		for _, b := range addrs[:i] {
			p.unless(!sameAddr(a.addr, b.addr), a.key, "is %q, must not be the address of %s (%s)", a.addr, b.key, b.addr)
		}
	}
}

// validateUnused finds addresses of other kinds of store than the configured one. Without a Redis none is needed.
func (c *Config) validateUnused(p *problems) {
	for _, of := range []struct {
		kind, key string
		given     bool
	}{
		{StoreStandalone, "redis.addr", c.Redis.Addr != ""},
		{StoreSentinel, "redis.sentinel", !reflect.DeepEqual(c.Redis.Sentinel, Sentinel{}) && !c.sentinelUsers()},
		{StoreCluster, "redis.cluster", len(c.Redis.Cluster.Addrs) > 0},
		{StoreRedlock, "redlock.members", len(c.Redlock.Members) > 0},
	} {
		p.unless(!of.given || c.Store.Kind == of.kind || c.Store.Kind == StoreMemory, of.key,
			"is only for store.kind %s, which is %s", of.kind, c.Store.Kind)
	}
}

// sentinelUsers says whether all that is said of sentinels is as whom members of a majority ask them.
func (c *Config) sentinelUsers() bool {
	s := c.Redis.Sentinel
	return c.Store.Kind == StoreRedlock && s.Master == "" && len(s.Addrs) == 0
}

// maxMembers is how many members a majority is formed of at most.
const maxMembers = 15

// validateMembers finds what is wrong with the members. As with other addresses, they are not repeated.
func (c *Config) validateMembers(p *problems) {
	const key = "redlock.members"
	ms := c.Redlock.Members
	p.unless(len(ms) >= 3 && len(ms) <= maxMembers, key,
		"lists %d servers, must list 3 to %d when store.kind is %s: two have no majority without both",
		len(ms), maxMembers, StoreRedlock)
	for i, m := range ms {
		p.unless(!slices.Contains(ms[:i], m), key, "lists a server twice: word %d was there before", i+1)
		kind, one, err := c.Redis.Member(m)
		if err != nil {
			p.add(key, "word %d %v", i+1, err)
			continue
		}
		switch kind {
		case StoreSentinel:
			p.unless(one.Sentinel.Master != "" &&
				isWord(one.Sentinel.Master), key, "word %d must name a master: sentinel://MASTER@HOST:PORT,…", i+1)
			p.servers(key, one.Sentinel.Addrs, StoreRedlock)
		case StoreCluster:
			p.servers(key, one.Cluster.Addrs, StoreRedlock)
			c.validateOneDatabase(p, key)
		}
	}
}

// validateOneDatabase finds a database that a cluster has not got.
func (c *Config) validateOneDatabase(p *problems, key string) {
	p.unless(c.Redis.DB == 0, key, "must not name a database: a Redis Cluster has one, and redis.db is %d", c.Redis.DB)
}

func (c *Config) validateStandalone(p *problems) {
	r := c.Redis
	end, err := r.Endpoint()
	switch {
	case r.Addr == "":
		p.add("redis.addr", "is needed when store.kind is %s", StoreStandalone)
	case err != nil:
		p.add("redis.addr", "%v", err)
	default:
		validateTLS(p, end.TLS)
	}
}

func validateTLS(p *problems, t RedisTLS) {
	p.unless(t.Enabled || t == RedisTLS{}, "redis.tls.enabled", "is false, but other redis.tls keys are set")
}

func (c *Config) validateSentinel(p *problems) {
	s := c.Redis.Sentinel
	p.unless(s.Master != "", "redis.sentinel.master", "is needed when store.kind is %s", StoreSentinel)
	p.unless(isWord(s.Master), "redis.sentinel.master", "is %q, must be one word: what the sentinels call the master",
		s.Master)
	p.servers("redis.sentinel.addrs", s.Addrs, StoreSentinel)
	validateTLS(p, c.Redis.TLS)
}

// servers finds what is wrong with a list of addresses that a kind of store needs. Its errors do not repeat an address
// that may contain a secret.
func (p *problems) servers(key string, addrs []string, kind string) {
	p.unless(len(addrs) > 0, key, "is needed when store.kind is %s", kind)
	for i, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		good := err == nil && host != "" && isWord(addr) && !strings.ContainsAny(addr, "@/") && port != "0" && isPort(port)
		p.unless(good, key, "must be a list of HOST:PORT, and the word %d is none", i+1)
		p.unless(!slices.Contains(addrs[:i], addr), key, "lists a server twice: word %d was there before", i+1)
	}
}

// isWord says whether a text has nothing that separates words.
func isWord(s string) bool {
	return readable(s) && !strings.ContainsFunc(s, unicode.IsSpace) && !strings.Contains(s, ",")
}

// validateRedis finds what is wrong with the keys of Redis that each kind of store has.
func (c *Config) validateRedis(p *problems) {
	r := c.Redis
	p.unless(readable(r.Prefix) && !strings.ContainsAny(r.Prefix, "{}"), "redis.prefix",
		"is %q, must be UTF-8 without braces and control characters", r.Prefix)
	p.unless((r.TLS.CertFile == "") == (r.TLS.KeyFile == ""), "redis.tls.cert_file",
		"and redis.tls.key_file need each other")
	p.unless(r.OpTimeout <= c.Session.MinTTL, "redis.op_timeout",
		"is %v, must not be longer than session.min_ttl (%v), or no renewal comes in time", r.OpTimeout, c.Session.MinTTL)
	longest := max(c.Limits.MaxLease, c.Session.MaxTTL)
	p.unless(r.FenceTTL-longest > longest, "redis.fence_ttl",
		"is %v, must be longer than two of the longest leases (limits.max_lease, session.max_ttl: %v)", r.FenceTTL, longest)
}

// problems are what is wrong, each with its key.
type problems []error

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
}

func (p *problems) unless(ok bool, key, format string, args ...any) {
	if !ok {
		p.add(key, format, args...)
	}
}

// sameAddr says whether two sockets cannot be open at the same time. Port 0 is another port every time.
func sameAddr(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || isWildcard(hostA) || isWildcard(hostB)
}

func isWildcard(host string) bool {
	return host == "" || net.ParseIP(host).IsUnspecified()
}

func readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
