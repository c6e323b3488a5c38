package config

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/pflag"
)

// Args is what the command line says.
type Args struct {
	File    string            // the configuration file; empty = none
	Check   bool              // validate and exit
	Version bool              // print the version and exit
	set     map[string]string // the keys that flags set
}

// ErrHelp is returned by ParseArgs when help was asked for.
var ErrHelp = pflag.ErrHelp

// Usage is the help of the command line.
func Usage() string {
	return "lockd is a lock broker.\n\nUsage: lockd [flags]\n\n" + newFlags(&Args{}).FlagUsages() +
		"\nEvery key of the file can be set by a variable, too: session.ttl by LOCKD_SESSION_TTL.\n" +
		"Flags override variables, which override the file.\n\n" +
		"Exit codes: 0 stopped as asked, 1 failed, 2 wrong command line, 78 wrong configuration.\n"
}

// keyFlags are the flags that set a key.
var keyFlags = []struct{ name, key, usage string }{
	{"listen", "listen", "the `address` where clients connect"},
	{"ops-listen", "ops_listen", "the `address` of metrics and probes, empty for none"},
	{"admin-listen", "admin_listen", "the `address` where operators connect, empty for none"},
	{"log-level", "log.level", "the log's `level`: debug, info, warn or error"},
	{"log-format", "log.format", "the log's `format`: auto, json or console"},
}

// storeFlags are the flags that say where leases live. Only one of them may be given.
var storeFlags = []struct {
	name, kind, usage string
	keys              func(text string) (map[string]string, error)
}{
	{
		"redis", StoreStandalone, "keep leases in the Redis at this `address`: HOST:PORT, redis://… or rediss://…",
		func(text string) (map[string]string, error) { return map[string]string{"redis.addr": text}, nil },
	},
	{
		"redis-sentinel", StoreSentinel,
		"keep leases in the Redis that sentinels call the `master`: MASTER@HOST:PORT,HOST:PORT,…",
		sentinelKeys,
	},
	{
		"redis-cluster", StoreCluster, "keep leases in the Redis Cluster of these `nodes`: HOST:PORT,HOST:PORT,…",
		func(text string) (map[string]string, error) {
			return map[string]string{"redis.cluster.addrs": text}, nil
		},
	},
	{
		"redlock", StoreRedlock, "keep leases in a majority of these `masters`: HOST:PORT,HOST:PORT,HOST:PORT,…",
		func(text string) (map[string]string, error) { return map[string]string{"redlock.members": text}, nil },
	},
}

// sentinelKeys reads MASTER@HOST:PORT,HOST:PORT.
func sentinelKeys(text string) (map[string]string, error) {
	master, addrs, ok := strings.Cut(text, "@")
	if !ok || master == "" || addrs == "" {
		return nil, errors.New("must be MASTER@HOST:PORT,HOST:PORT,…, with the name that the sentinels have for the master")
	}
	return map[string]string{"redis.sentinel.master": master, "redis.sentinel.addrs": addrs}, nil
}

func newFlags(a *Args) *pflag.FlagSet {
	fs := pflag.NewFlagSet("lockd", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {}
	defaults := map[string]string{}
	c := Default()
	for _, k := range keysOf(&c) {
		defaults[k.name] = k.field.String()
	}
	for _, f := range keyFlags {
		fs.String(f.name, defaults[f.key], f.usage)
	}
	for _, f := range storeFlags {
		fs.String(f.name, "", f.usage)
	}
	fs.StringVar(&a.File, "config", "", "read this `file`")
	fs.String("check-config", "", "validate this `file` and exit")
	fs.BoolVar(&a.Version, "version", false, "print the version and exit")
	return fs
}

// ParseArgs reads the command line, without the program's name.
func ParseArgs(args []string) (Args, error) {
	a := Args{set: map[string]string{}}
	fs := newFlags(&a)
	if err := fs.Parse(args); err != nil {
		return Args{}, err
	}
	if fs.NArg() > 0 {
		return Args{}, fmt.Errorf("lockd takes flags only, not %q", strings.Join(fs.Args(), " "))
	}
	for _, f := range keyFlags {
		if set := fs.Lookup(f.name); set.Changed {
			a.set[f.key] = set.Value.String()
		}
	}
	if err := a.readStore(fs); err != nil {
		return Args{}, err
	}
	if check := fs.Lookup("check-config"); check.Changed {
		if a.File != "" {
			return Args{}, errors.New("--config and --check-config exclude each other")
		}
		a.File, a.Check = check.Value.String(), true
	}
	return a, nil
}

// readStore reads the flag that says where leases live, if there is one.
func (a *Args) readStore(fs *pflag.FlagSet) error {
	before := ""
	for _, f := range storeFlags {
		set := fs.Lookup(f.name)
		if !set.Changed {
			continue
		}
		if before != "" {
			return fmt.Errorf("--%s and --%s exclude each other", before, f.name)
		}
		before = f.name
		keys, err := f.keys(set.Value.String())
		if err != nil {
			return fmt.Errorf("--%s: %w", f.name, err)
		}
		a.set["store.kind"] = f.kind
		maps.Copy(a.set, keys)
	}
	return nil
}
