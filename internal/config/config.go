// Package config is what lockd can be told to do differently.
//
// # What it promises
//
// A Config that Load returns is complete and valid. Default is the only place with defaults; a file overrides them,
// LOCKD_ variables override the file, flags override the variables. What lockd does not know it refuses, and it tells
// everything that is wrong at once, each finding with its key.
//
// # What it does not promise
//
// It opens nothing but the file it is given: whether an address can be bound, a server be reached or a secret be read
// shows when lockd starts. Nothing is reloaded while it runs.
//
// # Secrets
//
// A secret is given as the path of a file, never as a value, and its type prints as ***.
package config

import "time"

// Config is everything that can be configured. Durations are Go duration strings in files and variables.
type Config struct {
	// Listen is where clients connect.
	Listen string `mapstructure:"listen"`
	// OpsListen is where metrics and probes are served over HTTP; empty = nowhere.
	OpsListen string `mapstructure:"ops_listen"`
	// AdminListen is where operators connect: AdminService and InspectService; empty = nowhere.
	AdminListen string `mapstructure:"admin_listen"`
	// Replica is this process's name in answers, logs and sessions; empty = the host's name.
	Replica string `mapstructure:"replica"`

	Store    Store    `mapstructure:"store"`
	Redis    Redis    `mapstructure:"redis"`
	Session  Session  `mapstructure:"session"`
	Limits   Limits   `mapstructure:"limits"`
	Broker   Broker   `mapstructure:"broker"`
	Shutdown Shutdown `mapstructure:"shutdown"`
	GRPC     GRPC     `mapstructure:"grpc"`
	Ops      Ops      `mapstructure:"ops"`
	Log      Log      `mapstructure:"log"`
}

// The kinds of store.
const (
	// StoreMemory keeps leases in the process: one replica, everything gone at its exit.
	StoreMemory = "memory"
	// StoreStandalone keeps leases in one Redis.
	StoreStandalone = "standalone"
)

// Store is where leases live.
type Store struct {
	Kind string `mapstructure:"kind"`
}

// Session bounds how long a session outlives its last sign of life.
type Session struct {
	TTL    time.Duration `mapstructure:"ttl"`
	MinTTL time.Duration `mapstructure:"min_ttl"`
	MaxTTL time.Duration `mapstructure:"max_ttl"`
}

// Limits are the bounds that clients are told and held to.
type Limits struct {
	NameBytes          int           `mapstructure:"name_bytes"`
	HolderBytes        int           `mapstructure:"holder_bytes"`
	AnnotationBytes    int           `mapstructure:"annotation_bytes"`
	FrameBytes         int           `mapstructure:"frame_bytes"`
	LocksPerSession    int           `mapstructure:"locks_per_session"`
	WaitersPerSession  int           `mapstructure:"waiters_per_session"`
	WatchesPerSession  int           `mapstructure:"watches_per_session"`
	QueueLength        int           `mapstructure:"queue_length"`
	NamesPerAcquire    int           `mapstructure:"names_per_acquire"`
	Sessions           int           `mapstructure:"sessions"`
	SessionsPerAddress int           `mapstructure:"sessions_per_address"`
	CallsPerAddress    int           `mapstructure:"calls_per_address"`
	MinLease           time.Duration `mapstructure:"min_lease"`
	MaxLease           time.Duration `mapstructure:"max_lease"`
	MaxWait            time.Duration `mapstructure:"max_wait"`
}

// Broker tunes the core.
type Broker struct {
	HandoffBurst int `mapstructure:"handoff_burst"`
}

// Shutdown says how long a stop may take.
type Shutdown struct {
	// DrainWindow is how long clients have to move to another replica.
	DrainWindow time.Duration `mapstructure:"drain_window"`
	// Timeout bounds the whole stop, the window included.
	Timeout time.Duration `mapstructure:"timeout"`
}

// GRPC tunes the server clients connect to.
type GRPC struct {
	Reflection           bool          `mapstructure:"reflection"`
	KeepaliveTime        time.Duration `mapstructure:"keepalive_time"`
	KeepaliveTimeout     time.Duration `mapstructure:"keepalive_timeout"`
	KeepaliveMinTime     time.Duration `mapstructure:"keepalive_min_time"`
	MaxConcurrentStreams int           `mapstructure:"max_concurrent_streams"`
}

// Ops tunes the HTTP server for operators.
type Ops struct {
	Pprof bool `mapstructure:"pprof"`
}

// The formats of the log.
const (
	LogAuto    = "auto"
	LogJSON    = "json"
	LogConsole = "console"
)

// Log tunes the log, which goes to stderr.
type Log struct {
	Level  string `mapstructure:"level"`
	Format string `mapstructure:"format"`
}

// Default is what lockd does when it is told nothing. configs/lockd.yaml explains each value.
func Default() Config {
	return Config{
		Listen:      ":7420",
		OpsListen:   ":7421",
		AdminListen: "127.0.0.1:7422",
		Store:       Store{Kind: StoreMemory},
		Redis: Redis{
			ConnectTimeout: 5 * time.Second, OpTimeout: time.Second,
			FenceTTL: 7 * 24 * time.Hour,
		},
		Session: Session{TTL: 30 * time.Second, MinTTL: time.Second, MaxTTL: 10 * time.Minute},
		Limits: Limits{
			NameBytes:          512,
			HolderBytes:        128,
			AnnotationBytes:    4 << 10,
			FrameBytes:         1 << 20,
			LocksPerSession:    10_000,
			WaitersPerSession:  10_000,
			WatchesPerSession:  10_000,
			QueueLength:        100_000,
			NamesPerAcquire:    64,
			Sessions:           100_000,
			SessionsPerAddress: 10_000,
			CallsPerAddress:    64,
			MinLease:           100 * time.Millisecond,
			MaxLease:           24 * time.Hour,
			MaxWait:            7 * 24 * time.Hour,
		},
		Broker:   Broker{HandoffBurst: 32},
		Shutdown: Shutdown{DrainWindow: 10 * time.Second, Timeout: 20 * time.Second},
		GRPC: GRPC{
			Reflection:       true,
			KeepaliveTime:    20 * time.Second,
			KeepaliveTimeout: 10 * time.Second,
			KeepaliveMinTime: 10 * time.Second,

			MaxConcurrentStreams: 1000,
		},
		Log: Log{Level: "info", Format: LogAuto},
	}
}
