package config

import (
	"errors"
	"math"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Validate returns everything that is wrong, joined, each finding with its key.
func (c Config) Validate() error {
	var f findings
	c.validateAddresses(&f)
	c.validateStore(&f)
	c.Session.validate(&f)
	c.Limits.validate(&f)
	c.validateTimes(&f)
	c.GRPC.validate(&f)
	f.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	f.oneOf("log.format", c.Log.Format, LogAuto, LogJSON, LogConsole)
	f.atLeast("broker.handoff_burst", c.Broker.HandoffBurst, 0)
	f.unless(len(c.Replica) <= 128 && readable(c.Replica), "replica",
		"must be at most 128 bytes of UTF-8 without control characters")
	return errors.Join(f...)
}

func (c Config) validateAddresses(f *findings) {
	f.listenAddr("listen", c.Listen)
	if c.OpsListen != "" {
		f.listenAddr("ops_listen", c.OpsListen)
		f.unless(!sameAddr(c.Listen, c.OpsListen), "ops_listen", "must not be the address of listen (%s)", c.Listen)
	}
	if c.AdminListen != "" {
		f.listenAddr("admin_listen", c.AdminListen)
		f.unless(!sameAddr(c.Listen, c.AdminListen), "admin_listen", "must not be the address of listen (%s)", c.Listen)
		f.unless(!sameAddr(c.OpsListen, c.AdminListen), "admin_listen", "must not be the address of ops_listen (%s)", c.OpsListen)
	}
}

func (c Config) validateStore(f *findings) {
	switch c.Store.Kind {
	case StoreMemory:
		f.unless(c.Redis == Default().Redis, "redis",
			"is configured, but store.kind is %s; say %q, or use --redis", StoreMemory, StoreStandalone)
	case StoreStandalone:
		c.Redis.validate(f)
	default:
		f.oneOf("store.kind", c.Store.Kind, StoreMemory, StoreStandalone)
	}
}

func (r Redis) validate(f *findings) {
	if r.Addr == "" {
		f.add("redis.addr", "is needed when store.kind is %s", StoreStandalone)
	} else if _, err := r.Endpoint(); err != nil {
		f.add("redis.addr", "%v", err)
	}
	f.atLeast("redis.db", r.DB, 0)
	f.unless(readable(r.Prefix) && !strings.ContainsAny(r.Prefix, "{}"), "redis.prefix",
		"must be UTF-8 without braces and control characters")
	f.positive("redis.connect_timeout", r.ConnectTimeout)
	f.positive("redis.op_timeout", r.OpTimeout)
	f.positive("redis.fence_ttl", r.FenceTTL)
	f.unless((r.TLS.CertFile == "") == (r.TLS.KeyFile == ""), "redis.tls.cert_file",
		"and redis.tls.key_file need each other")
	end, err := r.Endpoint()
	f.unless(err != nil || end.TLS || r.TLS == RedisTLS{}, "redis.tls.enabled",
		"is false, but other redis.tls keys are set")
}

func (s Session) validate(f *findings) {
	f.noShorter("session.min_ttl", s.MinTTL, "100ms", 100*time.Millisecond)
	f.noShorter("session.max_ttl", s.MaxTTL, "session.min_ttl", s.MinTTL)
	f.unless(s.MinTTL <= s.TTL && s.TTL <= s.MaxTTL, "session.ttl",
		"is %v, must be from session.min_ttl (%v) to session.max_ttl (%v)", s.TTL, s.MinTTL, s.MaxTTL)
}

// frameRoom is what a request needs in its frame besides its name, holder and annotation.
const frameRoom = 1024

func (l Limits) validate(f *findings) {
	f.atLeast("limits.name_bytes", l.NameBytes, 1)
	f.atLeast("limits.holder_bytes", l.HolderBytes, 1)
	f.atLeast("limits.annotation_bytes", l.AnnotationBytes, 0)
	f.atLeast("limits.locks_per_session", l.LocksPerSession, 1)
	f.atLeast("limits.waiters_per_session", l.WaitersPerSession, 1)
	f.atLeast("limits.watches_per_session", l.WatchesPerSession, 0)
	f.atLeast("limits.queue_length", l.QueueLength, 1)
	f.atLeast("limits.names_per_acquire", l.NamesPerAcquire, 1)
	f.atLeast("limits.sessions", l.Sessions, 1)
	f.atLeast("limits.sessions_per_address", l.SessionsPerAddress, 0)
	f.atLeast("limits.calls_per_address", l.CallsPerAddress, 0)
	f.unless(l.FrameBytes <= math.MaxInt32 && l.room() >= frameRoom, "limits.frame_bytes",
		"is %d, must be under 2 GiB and leave %d bytes besides a name, a holder and an annotation", l.FrameBytes, frameRoom)
	f.positive("limits.min_lease", l.MinLease)
	f.noShorter("limits.max_lease", l.MaxLease, "limits.min_lease", l.MinLease)
	f.positive("limits.max_wait", l.MaxWait)
}

// room is what a frame has left after the longest name, holder and annotation. It counts in steps that cannot overflow.
func (l Limits) room() int {
	left := l.FrameBytes
	for _, n := range []int{l.NameBytes, l.HolderBytes, l.AnnotationBytes} {
		if n > left {
			return 0
		}
		left -= max(n, 0)
	}
	return left
}

// validateTimes compares times of different sections.
func (c Config) validateTimes(f *findings) {
	f.unless(c.Shutdown.DrainWindow >= 0, "shutdown.drain_window", "is %v, must not be negative", c.Shutdown.DrainWindow)
	f.unless(c.Shutdown.DrainWindow < c.Shutdown.Timeout, "shutdown.timeout",
		"is %v, must be longer than shutdown.drain_window (%v)", c.Shutdown.Timeout, c.Shutdown.DrainWindow)
	if c.Store.Kind != StoreStandalone {
		return
	}
	f.unless(c.Redis.OpTimeout <= c.Session.MinTTL, "redis.op_timeout",
		"is %v, must not be longer than session.min_ttl (%v), or no renewal comes in time", c.Redis.OpTimeout, c.Session.MinTTL)
	longest := max(c.Limits.MaxLease, c.Session.MaxTTL)
	f.unless(c.Redis.FenceTTL > 2*longest, "redis.fence_ttl",
		"is %v, must be longer than two of the longest leases (limits.max_lease, session.max_ttl: %v)", c.Redis.FenceTTL, longest)
}

func (g GRPC) validate(f *findings) {
	f.noShorter("grpc.keepalive_time", g.KeepaliveTime, "1s", time.Second)
	f.positive("grpc.keepalive_timeout", g.KeepaliveTimeout)
	f.unless(g.KeepaliveMinTime >= 0, "grpc.keepalive_min_time", "is %v, must not be negative", g.KeepaliveMinTime)
	f.unless(g.MaxConcurrentStreams >= 0 && g.MaxConcurrentStreams <= math.MaxUint32, "grpc.max_concurrent_streams",
		"is %d, must be from 0 (no limit) to %d", g.MaxConcurrentStreams, uint32(math.MaxUint32))
}

// findings collects what is wrong.
type findings []error

func (f *findings) add(key, format string, args ...any) {
	*f = append(*f, finding(key, format, args...))
}

func (f *findings) unless(ok bool, key, format string, args ...any) {
	if !ok {
		f.add(key, format, args...)
	}
}

func (f *findings) atLeast(key string, got, least int) {
	f.unless(got >= least, key, "is %d, must be at least %d", got, least)
}

func (f *findings) positive(key string, got time.Duration) {
	f.unless(got > 0, key, "is %v, must be longer than 0", got)
}

func (f *findings) noShorter(key string, got time.Duration, than string, least time.Duration) {
	f.unless(got >= least, key, "is %v, must not be shorter than %s (%v)", got, than, least)
}

func (f *findings) oneOf(key, got string, allowed ...string) {
	f.unless(slices.Contains(allowed, got), key, "is %q, must be one of %s", got, strings.Join(allowed, ", "))
}

func (f *findings) listenAddr(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	f.unless(err == nil && isPort(port), key, "is %q, must be HOST:PORT or :PORT", addr)
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
