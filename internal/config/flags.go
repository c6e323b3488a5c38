package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Args is what the command line says.
type Args struct {
	// File is the configuration file; empty = none.
	File string
	// Check asks to validate and exit.
	Check bool
	// Version asks for the version.
	Version bool
	// set has the keys that flags set.
	set map[string]any
}

// ErrHelp is returned by ParseArgs, with the help as its text's end, when help was asked for.
var ErrHelp = pflag.ErrHelp

// Usage is the help of the command line.
func Usage() string {
	return "lockd is a lock broker.\n\nUsage: lockd [flags]\n\n" + newFlags(&Args{}).FlagUsages() +
		"\nEvery key of the file can be set by a variable, too: session.ttl by " + EnvName("session.ttl") + ".\n" +
		"Flags override variables, which override the file.\n\n" +
		"Exit codes: 0 stopped as asked, 1 failed, 2 wrong command line, 78 wrong configuration.\n"
}

// flagKeys are the flags that set a key.
var flagKeys = map[string]string{
	"listen":       "listen",
	"ops-listen":   "ops_listen",
	"admin-listen": "admin_listen",
	"redis":        "redis.addr",
	"log-level":    "log.level",
	"log-format":   "log.format",
}

func newFlags(a *Args) *pflag.FlagSet {
	d := Default()
	fs := pflag.NewFlagSet("lockd", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {}
	fs.String("listen", d.Listen, "the `address` where clients connect")
	fs.String("ops-listen", d.OpsListen, "the `address` of metrics and probes, empty for none")
	fs.String("admin-listen", d.AdminListen, "the `address` where operators connect, empty for none")
	fs.String("redis", "", "keep leases in the Redis at this `address`: HOST:PORT, redis://… or rediss://…")
	fs.String("log-level", d.Log.Level, "the log's `level`: debug, info, warn or error")
	fs.String("log-format", d.Log.Format, "the log's `format`: auto, json or console")
	fs.StringVar(&a.File, "config", "", "read this `file`")
	fs.String("check-config", "", "validate this `file` and exit")
	fs.BoolVar(&a.Version, "version", false, "print the version and exit")
	return fs
}

// ParseArgs reads the command line, without the program's name.
func ParseArgs(args []string) (Args, error) {
	a := Args{set: map[string]any{}}
	fs := newFlags(&a)
	if err := fs.Parse(args); err != nil {
		return Args{}, err
	}
	if fs.NArg() > 0 {
		return Args{}, fmt.Errorf("lockd takes flags only, not %q", strings.Join(fs.Args(), " "))
	}
	fs.Visit(func(f *pflag.Flag) {
		if key, ok := flagKeys[f.Name]; ok {
			a.set[key] = f.Value.String()
		}
	})
	if fs.Changed("redis") {
		a.set["store.kind"] = StoreStandalone
	}
	if check := fs.Lookup("check-config"); check.Changed {
		if a.File != "" {
			return Args{}, errors.New("--config and --check-config exclude each other")
		}
		a.File, a.Check = check.Value.String(), true
	}
	return a, nil
}
