package app

import (
	"fmt"

	"github.com/lockd-io/lockd/internal/console"
	"github.com/lockd-io/lockd/internal/web"
)

// offerConsole makes the server of pages for people, if they are to be anywhere. They ask what clients ask, so it is
// made after that, and stopped before.
func (a *App) offerConsole() error {
	l := a.listeners[atConsole]
	if l == nil {
		return nil
	}
	c := a.cfg.Console
	pages, err := console.New(console.Config{
		Path: c.Path, Hosts: c.Hosts, KeyFile: string(c.KeyFile), Loopback: isLoopback(l.Addr()), Replica: a.cfg.Replica,
		Version: Version,
	}, a.api.Local(), a.log)
	if err != nil {
		return fmt.Errorf("%w: console.key_file: %w", ErrConfig, err)
	}
	a.console = web.NewServer("console_listen", pages, a.log)
	a.stopWeb("console", a.console, pages.Close)
	return nil
}
