package app

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/console"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/web"
)

// offerConsole makes the server of pages for people, if it has an address. The pages call the API, so it is made after
// the API and stopped before.
func (a *App) offerConsole(examine func(context.Context) []lock.Finding) error {
	l := a.listeners[endpoint.Console]
	if l == nil {
		return nil
	}
	c := a.cfg.Console
	pages, err := console.New(console.Config{
		Path: c.Path, Hosts: c.Hosts, KeyFile: string(c.KeyFile), Loopback: isLoopback(l.Addr()), Replica: a.cfg.Replica,
		Version: Version, Clients: a.clientsFile, Numbers: a.reg, Examine: examine,
	}, a.api.Local(), a.log)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	a.console = web.NewServer("console_listen", pages, a.log)
	a.console.ConnState = rests
	a.stopWeb("console", a.console, pages.Close)
	return nil
}

// clientsFile is what the clients file in force says, for those who may read it.
func (a *App) clientsFile() (all []console.Client) {
	quotas := a.guard.Allowances()
	for _, c := range a.guard.Clients() {
		r := c.Rights()
		of := console.Client{Name: c.Name(), Lock: r.Lock, Look: r.Look, Deny: r.Deny, Quota: quotas[c.Tenant()]}
		for _, act := range r.Acts {
			of.Admin = append(of.Admin, string(act))
		}
		all = append(all, of)
	}
	return all
}
