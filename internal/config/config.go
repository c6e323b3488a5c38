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
// So a new key is one line here, and one in configs/lockd.yaml that explains it; make chart-update tells the chart.
// Only what depends on more than one key is checked by code, in validate.go.
//
// Load has viper lay over each other, lowest first: the defaults, the file, LOCKD_ variables, flags. It refuses what
// lockd does not know, and reports everything that is wrong at once. It opens nothing but the file: whether an address
// can be bound or a server be reached shows when lockd starts. A secret is the path of a file, never a value, and
// prints as ***.
package config

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
)

// Config is everything that can be configured.
type Config struct {
	// Each is HOST:PORT, or unix:/PATH for a socket of this machine.
	Listen        string `key:"listen" default:":7420" flag:"<address> where clients connect"`
	OpsListen     string `key:"ops_listen" default:":7421" flag:"<address> of metrics and probes, empty for none"`
	AdminListen   string `key:"admin_listen" default:"127.0.0.1:7422" flag:"<address> where operators connect, empty for none"`
	HTTPListen    string `key:"http_listen" flag:"<address> where clients connect by HTTP, empty for none"`
	ConsoleListen string `key:"console_listen" flag:"<address> of pages for people, empty for none"`
	ListenTLS     TLS    `key:"listen_tls"` // of Listen and HTTPListen
	OpsTLS        TLS    `key:"ops_tls"`
	AdminTLS      TLS    `key:"admin_tls"`
	ConsoleTLS    TLS    `key:"console_tls"`

	Replica string  `key:"replica"` // this process's name; empty = the host's
	Console Console `key:"console"`

	Security struct {
		ClientsFile string `key:"clients_file"` // who may connect, and do what; empty = everybody everything
		Audit       string `key:"audit"`        // a file, or AuditStdout; empty = nowhere
		Require     bool   `key:"require"`      // that addresses which others reach have TLS and clients identities
	} `key:"security"`

	Store struct { // where leases live
		Kind string `key:"kind" default:"memory" oneof:"memory standalone sentinel cluster redlock"`
	} `key:"store"`
	Redis   Redis          `key:"redis"`
	Redlock Redlock        `key:"redlock"`
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

// The kinds of store: in the memory of this process, in one Redis, in the one that sentinels call the master, in a
// Redis Cluster, or in a majority of several of these.
const (
	StoreMemory     = "memory"
	StoreStandalone = "standalone"
	StoreSentinel   = "sentinel"
	StoreCluster    = "cluster"
	StoreRedlock    = "redlock"
)

// AuditStdout is standard output as the place of the audit.
const AuditStdout = "stdout"

// SocketScheme begins the address of a Unix socket where lockd listens, before its path.
const SocketScheme = "unix:"

// Redis is how Redis is reached and used.
type Redis struct {
	// of a standalone one: HOST:PORT, or a redis://, rediss:// or unix:// URL; see Endpoint
	Addr           string        `key:"addr"`
	Sentinel       Sentinel      `key:"sentinel"`
	Cluster        Cluster       `key:"cluster"`
	Username       string        `key:"username"`
	PasswordFile   SecretFile    `key:"password_file"`
	DB             int           `key:"db" min:"0"`
	TLS            RedisTLS      `key:"tls"`
	Prefix         string        `key:"prefix"`                                 // goes in front of every lock name
	ConnectTimeout time.Duration `key:"connect_timeout" default:"5s" min:"1ns"` // of a connection with its round trips
	OpTimeout      time.Duration `key:"op_timeout" default:"1s" min:"1ns"`      // of one command or script
	// that acknowledge a grant before it is told
	WaitReplicas int           `key:"wait_replicas" min:"0"`
	FenceTTL     time.Duration `key:"fence_ttl" default:"168h" min:"1ns"` // of the last fence of an unused name
}

// Sentinel says who knows the address of the master. TLS is that of Redis.
type Sentinel struct {
	Master       string     `key:"master"` // what the sentinels call it
	Addrs        []string   `key:"addrs"`  // of the sentinels, each HOST:PORT
	Username     string     `key:"username"`
	PasswordFile SecretFile `key:"password_file"`
}

// Cluster says where a Redis Cluster is.
type Cluster struct {
	Addrs []string `key:"addrs"` // of some of its nodes, each HOST:PORT
}

// Redlock says over which stores a lock is held by a majority. What Redis says of users and TLS is for all of them.
type Redlock struct {
	Members []string `key:"members"` // each as Member reads it
	// for the others, when a majority has answered
	NodeTimeout time.Duration `key:"node_timeout" default:"250ms" min:"1ns"`
	// of a member that may have lost its data; 0 = none
	Quarantine time.Duration `key:"quarantine" default:"10m" min:"0s"`
}

// RedisTLS says whether and how to speak TLS to Redis. Files are PEM.
type RedisTLS struct {
	Enabled    bool       `key:"enabled"`
	CAFile     string     `key:"ca_file"`   // replaces the system's roots
	CertFile   string     `key:"cert_file"` // the client's certificate
	KeyFile    SecretFile `key:"key_file"`
	ServerName string     `key:"server_name"` // in the server's certificate; empty = the host of the address
}

// Console says how browsers come to the pages for people.
type Console struct {
	Path  string   `key:"path"`  // what their paths begin with, as /lockd; empty = nothing
	Hosts []string `key:"hosts"` // what browsers may call this address, besides names of this machine; empty = anything
	// KeyFile seals the cookies of logins, so that all replicas that have it know them; empty = each replica its own.
	KeyFile SecretFile `key:"key_file"`
}

// The formats of the log. LogAuto is LogConsole on a terminal, else LogJSON.
const (
	LogAuto    = "auto"
	LogJSON    = "json"
	LogConsole = "console"
)

// Log tunes the log, which goes to stderr.
type Log struct {
	Level  string `key:"level" default:"info" oneof:"debug info warn error" flag:"<level> of the log"`
	Format string `key:"format" default:"auto" oneof:"auto json console" flag:"<format> of the log"`
}

// Whether clients show certificates.
const (
	ClientCertsNone     = "none"
	ClientCertsOptional = "optional"
	ClientCertsRequired = "required"
)

// TLS says whether and how an address of lockd speaks TLS: it does if there is a certificate. Files are PEM.
type TLS struct {
	CertFile     string     `key:"cert_file"` // the server's, with the intermediate authorities after it
	KeyFile      SecretFile `key:"key_file"`
	ClientCerts  string     `key:"client_certs" default:"none" oneof:"none optional required"`
	ClientCAFile string     `key:"client_ca_file"` // the authorities of clients' certificates
	MinVersion   string     `key:"min_version" default:"1.3" oneof:"1.2 1.3"`
}

// Enabled says whether TLS is spoken.
func (t TLS) Enabled() bool { return t.CertFile != "" }
