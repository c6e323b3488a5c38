// Package config is what lockd can be told to do differently.
//
// Config is one struct. Each of its fields is one key of the configuration, and the field's tags say all about it:
//
//	key       its name in the file; below sections the names are joined, as in session.ttl
//	default   its value if nothing sets it; without this tag it is zero
//	min, max  the least and the most that is allowed
//	oneof     the words that are allowed
//	flag      what the flag is for that sets the key, log.level by --log-level; without this tag there is none
//
// A key of several words is a list in the file; in a variable or a flag the words are separated by commas.
//
// So a new key is one line here, or in the type of its section, and one in configs/lockd.yaml that explains it; make
// chart-update tells the chart. Code checks only what depends on more than one key: in the type of a section, or in
// validate.go.
//
// Load refuses keys that lockd does not know, and reports all mistakes at once. It opens nothing but the configuration
// file: whether an address can be bound or a server reached shows when lockd starts. A secret is the path of a file,
// never a value, and prints as ***.
package config

import (
	"time"

	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
)

// Config is everything that can be configured.
type Config struct {
	endpoint.Addresses // where lockd listens: listen, listen_tls and the like

	Replica string `key:"replica"` // this process's name; empty = the host's

	Console struct { // how browsers come to the pages for people
		Path  string   `key:"path"`  // what their paths begin with, as /lockd; empty = nothing
		Hosts []string `key:"hosts"` // host names by which browsers may call it, besides those of this machine; empty = any
		// KeyFile seals the cookies of logins, so that all replicas that have it know them; empty = each replica its own.
		KeyFile secret.File `key:"key_file"`
	} `key:"console"`

	Security struct {
		ClientsFile string `key:"clients_file"` // who may connect, and do what; empty = everybody everything
		Audit       string `key:"audit"`        // a file, or stdout; empty = nowhere
		Require     bool   `key:"require"`      // addresses that others reach must have TLS, and clients identities
	} `key:"security"`

	topology.Config // where leases live: store, redis and redlock

	Session limits.Session `key:"session"`
	Limits  limits.Limits  `key:"limits"` // what clients are told and held to
	Broker  struct {
		HandoffBurst int `key:"handoff_burst" default:"32" min:"0"`
	} `key:"broker"`
	History struct {
		Events int `key:"events" default:"100000" min:"0" max:"10000000"` // how many events of names are remembered; 0 = none
	} `key:"history"`
	Shutdown struct {
		DrainWindow time.Duration `key:"drain_window" default:"10s" min:"0s"` // for clients to move to another replica
		Timeout     time.Duration `key:"timeout" default:"20s"`               // of the whole stop, the window included
	} `key:"shutdown"`
	GRPC struct {
		Reflection           bool          `key:"reflection" default:"true"`
		KeepaliveTime        time.Duration `key:"keepalive_time" default:"20s" min:"1s"`
		KeepaliveTimeout     time.Duration `key:"keepalive_timeout" default:"10s" min:"1ns"`
		KeepaliveMinTime     time.Duration `key:"keepalive_min_time" default:"10s" min:"0s"`
		MaxConcurrentStreams int           `key:"max_concurrent_streams" default:"1000" min:"0" max:"4294967295"`
	} `key:"grpc"`
	Ops struct {
		Pprof bool `key:"pprof"`
	} `key:"ops"`
	Log struct { // it goes to stderr; auto is console on a terminal, else json
		Level  string `key:"level" default:"info" oneof:"debug info warn error" flag:"<level> of the log"`
		Format string `key:"format" default:"auto" oneof:"auto json console" flag:"<format> of the log"`
	} `key:"log"`
}
