package config

import (
	"fmt"
	"regexp"

	"github.com/lockd-io/lockd/internal/lock"
)

// consolePath matches a path without a slash at its end, or nothing.
var consolePath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)*$`)

// problems are mistakes in the configuration, each with its key.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p *problems) unless(ok bool, format string, args ...any) {
	if !ok {
		p.add(format, args...)
	}
}

// validate reports mistakes in the values: what their tags forbid, and what depends on more than one of them.
func (c *Config) validate(p *problems) {
	for _, k := range keysOf(c) {
		k.check(p)
	}
	c.Addresses.Check(c.Security.ClientsFile != "", c.Security.Require, p.unless)
	c.Config.Check(Default().Redis, c.Session.MinTTL, max(c.Limits.MaxLease, c.Session.MaxTTL), p.unless)
	c.Session.Check(p.unless)
	c.Limits.Check(p.unless)
	stop, sec := c.Shutdown, c.Security
	p.unless(len(c.Replica) <= 128 && lock.IsReadable(c.Replica),
		"replica: is %q, must be at most 128 bytes of UTF-8 without control characters", c.Replica)
	p.unless(stop.DrainWindow < stop.Timeout,
		"shutdown.timeout: is %v, must be longer than shutdown.drain_window (%v)", stop.Timeout, stop.DrainWindow)
	p.unless(sec.Audit == "" || sec.ClientsFile != "",
		"security.audit: is %q, but there is no security.clients_file", sec.Audit)
	p.unless(sec.ClientsFile != "" || !sec.Require, "security.clients_file: is needed when security.require is true")
	p.unless(consolePath.MatchString(c.Console.Path), "console.path: is %q, must be like /lockd", c.Console.Path)
}
