package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/console"
	"github.com/lockd-io/lockd/internal/observe"
)

// consoleConnections are those at the address of the console, of whom others may come from one address: an ingress is
// one.
const consoleConnections = 2048

// consoleEndpoint is the address of the console.
func consoleEndpoint(c config.Config) endpoint {
	room := capacity{all: consoleConnections, each: consoleConnections, makesRoom: true}
	return endpoint{"console_listen", "console_tls", c.ConsoleListen, c.ConsoleTLS, room}
}

// consoleServer serves the console.
type consoleServer struct {
	http.Server
	listener net.Listener
	url      string
}

func (s *consoleServer) serve() error { return s.Serve(s.listener) }

// ConsoleURL is where the console is, "" if nowhere.
func (a *App) ConsoleURL() string {
	if a.console == nil {
		return ""
	}
	return a.console.url
}

// openConsole makes the console, if it is to be anywhere. It asks what clients ask, so it is made after that, and ends
// before.
func (a *App) openConsole() error {
	e := consoleEndpoint(a.cfg)
	if e.addr == "" {
		return nil
	}
	secure, expires, err := e.load(a.log, a.reg)
	if err != nil {
		return err
	}
	l, err := e.listen(a.log, a.reg)
	if err != nil {
		return err
	}
	local := isLoopback(l.Addr())
	s := &consoleServer{url: "http://" + l.Addr().String() + a.cfg.Console.Path + "/"}
	if expires != nil {
		a.consoleExpires = expires
		l, s.url = tls.NewListener(l, secure), "https"+s.url[len("http"):]
	} else if !local {
		a.log.Warn("NO TLS: others can read and change what is said at this address; see docs/tls.md",
			zap.String(observe.KeyEndpoint, e.key))
	}
	pages := console.New(console.Config{
		Path: a.cfg.Console.Path, Hosts: a.cfg.Console.Hosts, Loopback: local, Replica: a.cfg.Replica, Version: Version,
	}, a.api.Local(), a.log)
	errorLog, _ := zap.NewStdLogAt(a.log.Named("console"), zap.DebugLevel) // what browsers do wrong
	s.Server = http.Server{
		Handler: pages, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10, ErrorLog: errorLog,
	}
	s.listener, a.console = l, s
	a.cleanups.add("console", closeTimeout, func(ctx context.Context) error {
		pages.Close()
		err := s.Shutdown(ctx)
		_ = l.Close() // for when it never came to serve
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		return err
	})
	return nil
}
