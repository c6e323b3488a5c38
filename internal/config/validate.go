package config

import (
	"fmt"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"
)

// frameRoom is what a request needs in its frame besides its name, holder and annotation.
const frameRoom = 1024

// validate finds what is wrong with the values: what their tags forbid, and what depends on more than one of them.
func (c *Config) validate(p *problems) {
	for _, k := range keysOf(c) {
		if err := k.check(); err != nil {
			p.add(k.name, "%v", err)
		}
	}
	c.validateAddresses(p)
	s, l, stop := c.Session, c.Limits, c.Shutdown
	p.unless(len(c.Replica) <= 128 && readable(c.Replica), "replica",
		"is %q, must be at most 128 bytes of UTF-8 without control characters", c.Replica)
	p.unless(s.MinTTL <= s.MaxTTL, "session.max_ttl",
		"is %v, must not be shorter than session.min_ttl (%v)", s.MaxTTL, s.MinTTL)
	p.unless(s.MinTTL <= s.TTL && s.TTL <= s.MaxTTL, "session.ttl",
		"is %v, must be from session.min_ttl (%v) to session.max_ttl (%v)", s.TTL, s.MinTTL, s.MaxTTL)
	p.unless(l.MinLease <= l.MaxLease, "limits.max_lease",
		"is %v, must not be shorter than limits.min_lease (%v)", l.MaxLease, l.MinLease)
	p.unless(stop.DrainWindow < stop.Timeout, "shutdown.timeout",
		"is %v, must be longer than shutdown.drain_window (%v)", stop.Timeout, stop.DrainWindow)
	needed := frameRoom + float64(l.NameBytes) + float64(l.HolderBytes) + float64(l.AnnotationBytes) // cannot overflow
	p.unless(needed <= float64(l.FrameBytes), "limits.frame_bytes",
		"is %d, must leave %d bytes besides a name, a holder and an annotation", l.FrameBytes, frameRoom)
	switch c.Store.Kind {
	case StoreMemory:
		p.unless(c.Redis == Default().Redis, "redis", "is configured, but store.kind is %s; say %q, or use --redis",
			StoreMemory, StoreStandalone)
	case StoreStandalone:
		c.validateRedis(p)
	}
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

func (c *Config) validateRedis(p *problems) {
	r := c.Redis
	end, err := r.Endpoint()
	switch {
	case r.Addr == "":
		p.add("redis.addr", "is needed when store.kind is %s", StoreStandalone)
	case err != nil:
		p.add("redis.addr", "%v", err)
	default:
		p.unless(end.TLS.Enabled || r.TLS == RedisTLS{}, "redis.tls.enabled", "is false, but other redis.tls keys are set")
	}
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
