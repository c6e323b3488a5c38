// Package topology says which store keeps leases, and where its servers are.
//
// Config is that in keys of the configuration; Servers are the same for whoever connects. The package opens nothing.
package topology

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/address"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/secret"
)

// The kinds of store: in the memory of this process, in one Redis, in the one that sentinels call the master, in a
// Redis Cluster, or in a majority of several of these.
const (
	Memory     = "memory"
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
	Redlock    = "redlock"
)

// Config is a part of the configuration: package config says what the tags mean.
type Config struct {
	Store struct {
		Kind string `key:"kind" default:"memory" oneof:"memory standalone sentinel cluster redlock"`
	} `key:"store"`
	Redis   Redis `key:"redis"`
	Redlock struct {
		Members     []string      `key:"members"`                                // each as Redis.At reads it
		NodeTimeout time.Duration `key:"node_timeout" default:"250ms" min:"1ns"` // for the others, once a majority answered
		Quarantine  time.Duration `key:"quarantine" default:"10m" min:"0s"`      // of one that may lack data; 0 = none
	} `key:"redlock"`
}

// Redis is how Redis is reached and used. What it says of users and TLS is for all members of a majority.
type Redis struct {
	Addr     string `key:"addr"` // of a standalone one, as At reads it
	Sentinel struct {
		Master       string      `key:"master"` // what the sentinels call it
		Addrs        []string    `key:"addrs"`  // of the sentinels, each HOST:PORT; TLS is that of Redis
		Username     string      `key:"username"`
		PasswordFile secret.File `key:"password_file"`
	} `key:"sentinel"`
	Cluster struct {
		Addrs []string `key:"addrs"` // of some of its nodes, each HOST:PORT
	} `key:"cluster"`
	Username       string        `key:"username"`
	PasswordFile   secret.File   `key:"password_file"`
	DB             int           `key:"db" min:"0"`
	TLS            TLS           `key:"tls"`
	Prefix         string        `key:"prefix"`                                 // goes in front of every lock name
	ConnectTimeout time.Duration `key:"connect_timeout" default:"5s" min:"1ns"` // of a connection with its round trips
	OpTimeout      time.Duration `key:"op_timeout" default:"1s" min:"1ns"`      // of one command or script
	WaitReplicas   int           `key:"wait_replicas" min:"0"`                  // that have a grant before it is told
	FenceTTL       time.Duration `key:"fence_ttl" default:"168h" min:"1ns"`     // of the last fence of an unused name
}

// TLS says whether and how to speak TLS to Redis. Files are PEM.
type TLS struct {
	Enabled    bool        `key:"enabled"`
	CAFile     string      `key:"ca_file"`   // replaces the system's roots
	CertFile   string      `key:"cert_file"` // the client's certificate
	KeyFile    secret.File `key:"key_file"`
	ServerName string      `key:"server_name"` // in the server's certificate; empty = the host of the address
}

const maxMembers = 15 // of a majority

// Check tells all that is wrong, each with its key. defaults is Redis without any configuration; shortest and longest
// are the leases that Redis has to keep. Addresses are not repeated, as they may contain secrets.
func (c Config) Check(
	defaults Redis, shortest, longest time.Duration, unless func(ok bool, format string, args ...any),
) {
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
		return
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
	unless(r.OpTimeout <= shortest, "redis.op_timeout: is %v, must not be longer than session.min_ttl (%v), "+
		"or no renewal comes in time", r.OpTimeout, shortest)
	unless(r.FenceTTL-longest > longest, "redis.fence_ttl: is %v, must be longer than two of the longest leases "+
		"(limits.max_lease, session.max_ttl: %v)", r.FenceTTL, longest)
	unless(lock.IsReadable(r.Prefix) && !strings.ContainsAny(r.Prefix, "{}"),
		"redis.prefix: is %q, must be UTF-8 without braces and control characters", r.Prefix)
}
