package security

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
)

// Config is where a Guard finds what it needs.
type Config struct {
	File  string // the clients file
	Audit string // where audit lines go: a file, "stdout", or empty for nowhere
}

// Guard has the clients file that is in force. A nil Guard lets everybody in as nobody.
type Guard struct{}

// Open reads the clients file. Its error has everything that is wrong with it.
func Open(cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Guard, error) {
	return &Guard{}, nil
}

// Check reads a clients file and all that it names, as Open does. Its error has everything that is wrong.
func Check(file string) error { return nil }

// Identify says who somebody is. Its error is an *UnauthenticatedError.
func (g *Guard) Identify(ctx context.Context, c Credentials) (Identity, error) {
	return Identity{}, nil
}

// Still is nil if somebody is still who it was, by the file that is in force now. Else it is an *UnauthenticatedError.
func (g *Guard) Still(i Identity) error { return nil }

// OnChange has a function called after each change of what is in force. It is called once at a time.
func (g *Guard) OnChange(changed func()) {}

// EndsHolds says whether holds end whose name their client may lock no more (on_revoke: end).
func (g *Guard) EndsHolds() bool { return false }

// Allowances are how much each client may have.
func (g *Guard) Allowances() limits.Allowances { return nil }

// Close stops reading the file, and writes what is left of the audit.
func (g *Guard) Close() {}
