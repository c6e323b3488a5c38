package config

import (
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	frameRest    = 1024        // what a request needs in its frame besides its name, holder and annotation
	minStreamAge = time.Second // the least session.max_stream_age: to move costs more than to stay
	maxMembers   = 15          // of a majority
)

// validate finds what is wrong with the values: what their tags forbid, and what depends on more than one of them.
func (c *Config) validate(p *problems) {
	for _, k := range keysOf(c) {
		k.check(p)
	}
	c.validateAddresses(p)
	c.validateStore(p)
	s, l, stop, sec := c.Session, c.Limits, c.Shutdown, c.Security
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
	needed := frameRest + float64(l.NameBytes) + float64(l.HolderBytes) + float64(l.AnnotationBytes) // cannot overflow
	p.unless(needed <= float64(l.FrameBytes), "limits.frame_bytes",
		"is %d, must leave %d bytes besides a name, a holder and an annotation", l.FrameBytes, frameRest)
	p.unless(sec.Audit == "" || sec.ClientsFile != "", "security.audit",
		"is %q, but there is no security.clients_file", sec.Audit)
	p.unless(sec.ClientsFile != "" || !sec.Require, "security.clients_file", "is needed when security.require is true")
	p.unless(sec.ClientsFile != "" || c.ConsoleListen == "" || isLocal(c.ConsoleListen), "console_listen",
		"is %q, must be an address of this machine only: there is no security.clients_file", c.ConsoleListen)
	p.unless(consolePath.MatchString(c.Console.Path), "console.path", "is %q, must be like /lockd", c.Console.Path)
}

// validateAddresses finds what is wrong with where lockd listens, and with the TLS there. Nothing is looked up: a name
// is an address of others.
func (c *Config) validateAddresses(p *problems) {
	all := []struct {
		key, section, addr string
		tls                TLS
		required           bool // to have TLS, with security.require
	}{
		{"listen", "listen_tls", c.Listen, c.ListenTLS, true},
		{"ops_listen", "ops_tls", c.OpsListen, c.OpsTLS, false},
		{"admin_listen", "admin_tls", c.AdminListen, c.AdminTLS, true},
		{"http_listen", "listen_tls", c.HTTPListen, c.ListenTLS, true},
		{"console_listen", "console_tls", c.ConsoleListen, c.ConsoleTLS, true},
	}
	for i, a := range all {
		path, isSocket := strings.CutPrefix(a.addr, SocketScheme)
		_, port, err := net.SplitHostPort(a.addr)
		nowhere := i > 0 && a.addr == ""
		p.unless(nowhere || isSocket && isPath(path) || !isSocket && err == nil && isPort(port), a.key,
			"is %q, must be HOST:PORT, :PORT or unix:/PATH", a.addr)
		for _, b := range all[:i] {
			p.unless(!sameAddr(a.addr, b.addr), a.key, "is %q, must not be the address of %s (%s)", a.addr, b.key, b.addr)
		}
		p.unless(a.tls.Enabled() || nowhere || isLocal(a.addr) || !a.required || !c.Security.Require, a.section+".cert_file",
			"is needed when security.require is true, as others reach %s (%s)", a.key, a.addr)
		if a.key != "http_listen" { // whose TLS is that of listen
			a.tls.validate(p, a.section)
			p.unless(!nowhere || !a.tls.Enabled(), a.section+".cert_file", "is set, but nothing is served there: the address is empty")
		}
	}
}

// validate finds what is wrong with a section.
func (t TLS) validate(p *problems, section string) {
	asks := t.ClientCerts != ClientCertsNone
	p.unless((t.CertFile == "") == (t.KeyFile == ""), section+".cert_file", "and %s.key_file need each other", section)
	p.unless(!asks || t.Enabled(), section+".client_certs", "is %q, but there is no %s.cert_file", t.ClientCerts, section)
	p.unless(asks == (t.ClientCAFile != ""), section+".client_ca_file",
		"is needed when %s.client_certs is %q or %q, and only then", section, ClientCertsOptional, ClientCertsRequired)
}

// consolePath is a path without an end, or nothing.
var consolePath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)*$`)

// isLocal says whether only this machine can reach an address.
func isLocal(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return strings.HasPrefix(addr, SocketScheme) || err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// validateStore finds what is wrong with where leases live. Without a Redis none of its keys may be set.
func (c *Config) validateStore(p *problems) {
	r, kind := c.Redis, c.Store.Kind
	for _, of := range []struct {
		kind, key string
		given     bool
	}{
		{StoreStandalone, "redis.addr", r.Addr != ""},
		{StoreSentinel, "redis.sentinel.master", r.Sentinel.Master != ""},
		{StoreSentinel, "redis.sentinel.addrs", len(r.Sentinel.Addrs) > 0},
		{StoreCluster, "redis.cluster.addrs", len(r.Cluster.Addrs) > 0},
		{StoreRedlock, "redlock.members", len(c.Redlock.Members) > 0},
	} {
		p.unless(of.given || kind != of.kind, of.key, "is needed when store.kind is %s", of.kind)
		p.unless(!of.given || kind == of.kind, of.key, "is only for store.kind %s, which is %s", of.kind, kind)
	}
	asUser := r.Sentinel.Username != "" || r.Sentinel.PasswordFile != ""
	p.unless(!asUser || kind == StoreSentinel || kind == StoreRedlock || kind == StoreMemory, "redis.sentinel",
		"is only for store.kind %s and %s, which is %s", StoreSentinel, StoreRedlock, kind)
	switch kind {
	case StoreMemory:
		r.Addr, r.Sentinel.Master, r.Sentinel.Addrs, r.Cluster.Addrs = "", "", nil, nil
		p.unless(reflect.DeepEqual(r, Default().Redis), "redis",
			"is configured, but store.kind is %s; say %q, or use --redis", kind, StoreStandalone)
		return
	case StoreStandalone:
		if end, err := r.Endpoint(); err == nil {
			r = end
		} else if r.Addr != "" {
			p.add("redis.addr", "%v", err)
		}
	case StoreSentinel:
		p.unless(r.Sentinel.Master == "" || isWord(r.Sentinel.Master), "redis.sentinel.master",
			"is %q, must be one word: what the sentinels call the master", r.Sentinel.Master)
		p.servers("redis.sentinel.addrs", r.Sentinel.Addrs)
	case StoreCluster:
		p.servers("redis.cluster.addrs", r.Cluster.Addrs)
		p.unless(r.DB == 0, "redis.db", "must not name a database: a Redis Cluster has one, and redis.db is %d", r.DB)
	case StoreRedlock:
		c.validateMembers(p)
	}
	p.unless(r.TLS.Enabled || r.TLS == RedisTLS{}, "redis.tls.enabled", "is false, but other redis.tls keys are set")
	p.unless((r.TLS.CertFile == "") == (r.TLS.KeyFile == ""), "redis.tls.cert_file",
		"and redis.tls.key_file need each other")
	p.unless(readable(r.Prefix) && !strings.ContainsAny(r.Prefix, "{}"), "redis.prefix",
		"is %q, must be UTF-8 without braces and control characters", r.Prefix)
	p.unless(r.OpTimeout <= c.Session.MinTTL, "redis.op_timeout",
		"is %v, must not be longer than session.min_ttl (%v), or no renewal comes in time", r.OpTimeout, c.Session.MinTTL)
	longest := max(c.Limits.MaxLease, c.Session.MaxTTL)
	p.unless(r.FenceTTL-longest > longest, "redis.fence_ttl",
		"is %v, must be longer than two of the longest leases (limits.max_lease, session.max_ttl: %v)", r.FenceTTL, longest)
}

// validateMembers finds what is wrong with the members of a majority. As with other addresses, they are not repeated.
func (c *Config) validateMembers(p *problems) {
	const key = "redlock.members"
	ms := c.Redlock.Members
	p.unless(len(ms) >= 3 && len(ms) <= maxMembers, key,
		"lists %d servers, must list 3 to %d: two have no majority without both", len(ms), maxMembers)
	p.noneTwice(key, ms)
	for i, m := range ms {
		kind, one, err := c.Redis.Member(m)
		switch {
		case err != nil:
			p.add(key, "word %d %v", i+1, err)
		case kind == StoreSentinel && (!isWord(one.Sentinel.Master) || one.Sentinel.Addrs[0] == ""):
			p.add(key, "word %d must be sentinel://MASTER@HOST:PORT,…", i+1)
		case kind == StoreSentinel:
			p.servers(key, one.Sentinel.Addrs)
		case kind == StoreCluster:
			p.servers(key, one.Cluster.Addrs)
			p.unless(one.DB == 0, key, "word %d is a cluster, which has one database, and redis.db is %d", i+1, one.DB)
		}
	}
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

// servers finds what is wrong with a list of addresses. It does not repeat an address, which may contain a secret.
func (p *problems) servers(key string, addrs []string) {
	for i, addr := range addrs {
		p.unless(isServer(addr), key, "must be a list of HOST:PORT, and the word %d is none", i+1)
	}
	p.noneTwice(key, addrs)
}

func (p *problems) noneTwice(key string, words []string) {
	for i, w := range words {
		p.unless(!slices.Contains(words[:i], w), key, "lists a server twice: word %d was there before", i+1)
	}
}

// sameAddr says whether two sockets cannot be open at the same time. Port 0 is another port every time.
func sameAddr(a, b string) bool {
	if strings.HasPrefix(a, SocketScheme) {
		return a == b
	}
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return hostA == hostB || isWildcard(hostA) || isWildcard(hostB)
}

func isWildcard(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// isWord says whether a text is there and has nothing that separates words.
func isWord(s string) bool {
	return s != "" && readable(s) && !strings.ContainsFunc(s, unicode.IsSpace) && !strings.Contains(s, ",")
}

func readable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}
