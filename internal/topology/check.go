package topology

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lockd-io/lockd/internal/address"
	"github.com/lockd-io/lockd/internal/lock"
)

const maxMembers = 15 // of a majority

// Check returns all that is wrong, each with its key, where nothing that is configured would be these defaults. Addresses
// are not repeated, as they may contain secrets.
func (c Config) Check(defaults Redis) (found []error) {
	unless := func(ok bool, format string, args ...any) {
		if !ok {
			found = append(found, fmt.Errorf(format, args...))
		}
	}
	r, kind, ms := c.Redis, c.Store.Kind, c.Redlock.Members
	for _, of := range []struct {
		kind, key string
		given     bool
	}{
		{Standalone, "redis.addr", r.Addr != ""},
		{Sentinel, "redis.sentinel.master", r.Sentinel.Master != ""},
		{Sentinel, "redis.sentinel.addrs", len(r.Sentinel.Addrs) > 0},
		{Cluster, "redis.cluster.addrs", len(r.Cluster.Addrs) > 0},
		{Redlock, "redlock.members", len(ms) > 0},
	} {
		unless(of.given || kind != of.kind, "%s: is needed when store.kind is %s", of.key, of.kind)
		unless(!of.given || kind == of.kind, "%s: is only for store.kind %s, which is %s", of.key, of.kind, kind)
	}
	asUser := r.Sentinel.Username != "" || r.Sentinel.PasswordFile != ""
	unless(!asUser || kind != Standalone && kind != Cluster,
		"redis.sentinel: is only for store.kind %s and %s, which is %s", Sentinel, Redlock, kind)
	if kind == Memory {
		r.Addr, r.Sentinel.Master, r.Sentinel.Addrs, r.Cluster.Addrs = "", "", nil, nil // see above
		unless(reflect.DeepEqual(r, defaults),
			"redis: is configured, but store.kind is %s; say %q, or use --redis", kind, Standalone)
		return found
	}
	unless(kind != Redlock || len(ms) >= 3 && len(ms) <= maxMembers,
		"redlock.members: lists %d servers, must list 3 to %d: two have no majority without both", len(ms), maxMembers)
	servers, err := c.Servers()
	unless(err == nil, "%w", err)
	list, lists := "redis."+kind+".addrs", [][]string{ms}
	if kind == Redlock {
		list = "redlock.members"
	}
	for _, s := range servers {
		unless(s.Master == "" || address.IsWord(s.Master),
			"redis.sentinel.master: is %q, must be one word: what the sentinels call the master", s.Master)
		unless(s.Kind != Cluster || s.DB == 0,
			"redis.db: must not name a database: a Redis Cluster has one, and redis.db is %d", s.DB)
		for i, addr := range s.Addrs {
			unless(s.Kind == Standalone || address.IsServer(addr),
				"%s: must be a list of HOST:PORT, and the word %d is none", list, i+1)
		}
		lists = append(lists, s.Addrs)
	}
	for _, words := range lists {
		for i, w := range words {
			unless(!slices.Contains(words[:i], w), "%s: lists a server twice: word %d was there before", list, i+1)
		}
	}
	unless(r.TLS.Enabled || r.TLS == TLS{}, "redis.tls.enabled: is false, but other redis.tls keys are set")
	unless((r.TLS.CertFile == "") == (r.TLS.KeyFile == ""), "redis.tls.cert_file: and redis.tls.key_file need each other")
	unless(lock.IsReadable(r.Prefix) && !strings.ContainsAny(r.Prefix, "{}"),
		"redis.prefix: is %q, must be UTF-8 without braces and control characters", r.Prefix)
	return found
}
