package app

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/security"
)

// openGuard reads the clients file, if there is one. The Guard is closed last, as others ask it until then who a client
// is: so it has the first of all cleanups.
func (a *App) openGuard() error {
	c := a.cfg.Security
	if c.ClientsFile == "" {
		return nil
	}
	g, err := security.Open(security.Config{File: c.ClientsFile, Audit: c.Audit}, a.log, a.reg)
	if err != nil {
		return fmt.Errorf("%w: security: %w", ErrConfig, err)
	}
	a.guard = g
	a.cleanups.add("guard", closeTimeout, func(context.Context) error { g.Close(); return nil })
	return nil
}
