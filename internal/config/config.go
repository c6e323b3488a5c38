// Package config is what lockd can be told to do differently.
//
// Config is one struct, and each of its fields is one key. The field's tags say all about the key:
//
//	key       its name in the file; below sections the names are joined, as in session.ttl
//	default   its value if nothing sets it; without this tag it is zero
//	min, max  the least and the most that is allowed
//	oneof     the words that are allowed
//	flag      what the flag is for that sets the key, log.level by --log-level; without this tag there is none
//
// A key of several words is a list in the file; a variable or a flag has them with commas between.
//
// So a new key is one line here, or with the type of its section, and one in configs/lockd.yaml that explains it; make
// chart-update tells the chart. Only what depends on more than one key is checked by code, in validate.go and topology.
//
// Load has viper lay over each other, lowest first: the defaults, the file, LOCKD_ variables, flags. It refuses what
// lockd does not know, and reports everything that is wrong at once. It opens nothing but the file: whether an address
// can be bound or a server be reached shows when lockd starts. A secret is the path of a file, never a value, and
// prints as ***.
package config

import (
	"time"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
)

// Config is everything that can be configured.
type Config struct {
	// Each is HOST:PORT, or unix:/PATH for a socket of this machine.
	Listen        string      `key:"listen" default:":7420" flag:"<address> where clients connect"`
	OpsListen     string      `key:"ops_listen" default:":7421" flag:"<address> of metrics and probes, empty for none"`
	AdminListen   string      `key:"admin_listen" default:"127.0.0.1:7422" flag:"<address> for operators, empty for none"`
	HTTPListen    string      `key:"http_listen" flag:"<address> where clients connect by HTTP, empty for none"`
	ConsoleListen string      `key:"console_listen" flag:"<address> of pages for people, empty for none"`
	ListenTLS     certs.Files `key:"listen_tls"` // of Listen and HTTPListen
	OpsTLS        certs.Files `key:"ops_tls"`
	AdminTLS      certs.Files `key:"admin_tls"`
	ConsoleTLS    certs.Files `key:"console_tls"`

	Replica string  `key:"replica"` // this process's name; empty = the host's
	Console Console `key:"console"`

	Security struct {
		ClientsFile string `key:"clients_file"` // who may connect, and do what; empty = everybody everything
		Audit       string `key:"audit"`        // a file, or stdout; empty = nowhere
		Require     bool   `key:"require"`      // that addresses which others reach have TLS and clients identities
	} `key:"security"`

	topology.Config // where leases live: store, redis and redlock

	Session limits.Session `key:"session"`
	Limits  limits.Limits  `key:"limits"` // what clients are told and held to
	Broker  struct {
		HandoffBurst int `key:"handoff_burst" default:"32" min:"0"`
	} `key:"broker"`
	History struct {
		Events int `key:"events" default:"100000" min:"0" max:"10000000"` // of names that are remembered; 0 = none
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
	Log Log `key:"log"`
}

// Console says how browsers come to the pages for people.
type Console struct {
	Path  string   `key:"path"`  // what their paths begin with, as /lockd; empty = nothing
	Hosts []string `key:"hosts"` // what browsers may call this address, besides names of this machine; empty = anything
	// KeyFile seals the cookies of logins, so that all replicas that have it know them; empty = each replica its own.
	KeyFile secret.File `key:"key_file"`
}

// Log tunes the log, which goes to stderr. The format auto is console on a terminal, else json.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug info warn error" flag:"<level> of the log"`
	Format string `key:"format" default:"auto" oneof:"auto json console" flag:"<format> of the log"`
}
