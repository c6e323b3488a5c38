// lockd is a lock broker. See the README, and lockd --help.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	// The authorities of the web, for where the system has none: the container image has no files but the programs.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/lockd-io/lockd/internal/app"
	"github.com/lockd-io/lockd/internal/config"
)

const exitFailed, exitUsage, exitConfig = 1, 2, 78 // 78 is EX_CONFIG of sysexits.h

var version string // set by release builds

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	app.Version = cmp.Or(version, app.Version)
	parsed, err := config.ParseArgs(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		return fail(exitUsage, err)
	case parsed.Version:
		fmt.Println("lockd", app.Version)
		return 0
	}
	cfg, err := config.Load(parsed)
	if err != nil {
		return fail(exitConfig, err)
	}
	if parsed.Check {
		if err := app.Check(cfg); err != nil {
			return fail(exitConfig, err)
		}
		fmt.Println(parsed.File, "is valid")
		if clients := cfg.Security.ClientsFile; clients != "" {
			fmt.Println(clients, "is valid")
		}
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	lockd, err := app.New(cfg, app.NewLogger(cfg, os.Stderr))
	if err == nil {
		err = lockd.Run(ctx)
	}
	switch {
	case errors.Is(err, app.ErrConfig):
		return fail(exitConfig, err)
	case err != nil:
		return fail(exitFailed, err)
	}
	return 0
}

func fail(code int, err error) int {
	fmt.Fprintln(os.Stderr, "lockd:", err)
	return code
}
