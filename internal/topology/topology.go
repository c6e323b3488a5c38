// Package topology is which store keeps leases, and where its servers are.
//
// Config is what the configuration says of it, in keys; Servers are the same, for whoever connects. It opens nothing.
package topology

import (
	"time"

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
		NodeTimeout time.Duration `key:"node_timeout" default:"250ms" min:"1ns"` // for the others, when a majority has answered
		Quarantine  time.Duration `key:"quarantine" default:"10m" min:"0s"`      // of a member that may have lost its data; 0 = none
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
	WaitReplicas   int           `key:"wait_replicas" min:"0"`                  // that acknowledge a grant before it is told
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
