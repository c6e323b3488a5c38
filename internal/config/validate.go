package config

import (
	"fmt"
	"regexp"
	"time"

	"github.com/lockd-io/lockd/internal/address"
	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/topology"
)

const frameRest = 1024 // bytes that a request needs in its frame besides its name, holder and annotation

// consolePath is a path without an end, or nothing.
var consolePath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)*$`)

// problems are what is wrong, each with its key.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p *problems) unless(ok bool, format string, args ...any) {
	if !ok {
		p.add(format, args...)
	}
}

// validate finds what is wrong with the values: what their tags forbid, and what depends on more than one of them.
func (c *Config) validate(p *problems) {
	for _, k := range keysOf(c) {
		k.check(p)
	}
	c.validateAddresses(p)
	c.Config.Check(Default().Redis, p.unless)
	s, l, stop, sec, r := c.Session, c.Limits, c.Shutdown, c.Security, c.Redis
	p.unless(len(c.Replica) <= 128 && lock.IsReadable(c.Replica),
		"replica: is %q, must be at most 128 bytes of UTF-8 without control characters", c.Replica)
	p.unless(s.MinTTL <= s.MaxTTL,
		"session.max_ttl: is %v, must not be shorter than session.min_ttl (%v)", s.MaxTTL, s.MinTTL)
	p.unless(s.MinTTL <= s.TTL && s.TTL <= s.MaxTTL,
		"session.ttl: is %v, must be from session.min_ttl (%v) to session.max_ttl (%v)", s.TTL, s.MinTTL, s.MaxTTL)
	p.unless(s.MaxStreamAge == 0 || s.MaxStreamAge >= time.Second, // to move costs more than to stay
		"session.max_stream_age: is %v, must be 0, for no limit, or at least 1s", s.MaxStreamAge)
	p.unless(l.MinLease <= l.MaxLease,
		"limits.max_lease: is %v, must not be shorter than limits.min_lease (%v)", l.MaxLease, l.MinLease)
	p.unless(stop.DrainWindow < stop.Timeout,
		"shutdown.timeout: is %v, must be longer than shutdown.drain_window (%v)", stop.Timeout, stop.DrainWindow)
	needed := frameRest + float64(l.NameBytes) + float64(l.HolderBytes) + float64(l.AnnotationBytes) // cannot overflow
	p.unless(needed <= float64(l.FrameBytes),
		"limits.frame_bytes: is %d, must leave %d bytes besides a name, a holder and an annotation", l.FrameBytes, frameRest)
	p.unless(sec.Audit == "" || sec.ClientsFile != "",
		"security.audit: is %q, but there is no security.clients_file", sec.Audit)
	p.unless(sec.ClientsFile != "" || !sec.Require, "security.clients_file: is needed when security.require is true")
	p.unless(consolePath.MatchString(c.Console.Path), "console.path: is %q, must be like /lockd", c.Console.Path)
	if c.Store.Kind == topology.Memory {
		return
	}
	p.unless(r.OpTimeout <= s.MinTTL, "redis.op_timeout: is %v, must not be longer than session.min_ttl (%v), "+
		"or no renewal comes in time", r.OpTimeout, s.MinTTL)
	longest := max(l.MaxLease, s.MaxTTL)
	p.unless(r.FenceTTL-longest > longest, "redis.fence_ttl: is %v, must be longer than two of the longest leases "+
		"(limits.max_lease, session.max_ttl: %v)", r.FenceTTL, longest)
}

// validateAddresses finds what is wrong with where lockd listens, and with the TLS there.
func (c *Config) validateAddresses(p *problems) {
	all := []struct {
		key, section, addr string
		tls                certs.Files
	}{
		{"listen", "listen_tls", c.Listen, c.ListenTLS},
		{"ops_listen", "ops_tls", c.OpsListen, c.OpsTLS},
		{"admin_listen", "admin_tls", c.AdminListen, c.AdminTLS},
		{"http_listen", "listen_tls", c.HTTPListen, c.ListenTLS},
		{"console_listen", "console_tls", c.ConsoleListen, c.ConsoleTLS},
	}
	for i, a := range all {
		at, ok := address.ParseListen(a.addr)
		nowhere := i > 0 && a.addr == ""
		p.unless(ok || nowhere, "%s: is %q, must be HOST:PORT, :PORT or unix:/PATH", a.key, a.addr)
		for _, b := range all[:i] {
			before, _ := address.ParseListen(b.addr)
			p.unless(!at.Excludes(before), "%s: is %q, must not be the address of %s (%s)", a.key, a.addr, b.key, b.addr)
		}
		safe := nowhere || at.IsLocal()
		p.unless(safe || a.key != "console_listen" || c.Security.ClientsFile != "",
			"%s: is %q, must be an address of this machine only: there is no security.clients_file", a.key, a.addr)
		p.unless(safe || a.key == "ops_listen" || a.tls.Enabled() || !c.Security.Require,
			"%s.cert_file: is needed when security.require is true, as others reach %s (%s)", a.section, a.key, a.addr)
		if a.key == "http_listen" {
			continue // its TLS is that of listen
		}
		asks := a.tls.ClientCerts != certs.None
		p.unless(!nowhere || !a.tls.Enabled(),
			"%s.cert_file: is set, but nothing is served there: the address is empty", a.section)
		p.unless((a.tls.CertFile == "") == (a.tls.KeyFile == ""),
			"%[1]s.cert_file: and %[1]s.key_file need each other", a.section)
		p.unless(!asks || a.tls.Enabled(),
			"%[1]s.client_certs: is %[2]q, but there is no %[1]s.cert_file", a.section, a.tls.ClientCerts)
		p.unless(asks == (a.tls.ClientCAFile != ""),
			"%[1]s.client_ca_file: is needed when %[1]s.client_certs is optional or required, and only then", a.section)
	}
}
