package app

import (
	"context"
	"errors"
	"os"

	"github.com/lockd-io/lockd/internal/tracing"
)

// trace begins to send spans if the variables of OpenTelemetry ask for it; else it returns nil.
func (a *App) trace() (*tracing.Provider, error) {
	p, err := tracing.Start(context.Background(), tracing.Config{
		Getenv: os.Getenv, Replica: a.cfg.Replica, Version: Version,
	}, a.log)
	if errors.Is(err, tracing.ErrConfig) {
		return nil, errors.Join(ErrConfig, err)
	}
	if p != nil {
		a.cleanups.add("tracing", closeTimeout, func(ctx context.Context) error {
			_ = p.Shutdown(ctx) // a collector that is away is no failure of lockd; it was logged
			return nil
		})
	}
	return p, err
}
