package limits

import "github.com/lockd-io/lockd/internal/lock"

// Allowance is how much one client of the clients file may have on a replica, whatever its sessions are. 0 is no bound
// of its own: what holds for everybody holds for it.
type Allowance struct {
	Sessions          int `yaml:"sessions"`
	Locks             int `yaml:"locks"`               // held or asked for
	Waiting           int `yaml:"waiting"`             // requests
	Watches           int `yaml:"watches"`             // watched names
	RequestsPerSecond int `yaml:"requests_per_second"` // those that give something back are not counted
	Streams           int `yaml:"streams"`             // of sessions, and unary calls
}

// Allowances are those of all clients.
type Allowances map[lock.Tenant]Allowance
