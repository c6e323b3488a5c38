package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Args is what the command line says.
type Args struct {
	File    string // the configuration file; empty = none
	Check   bool   // validate and exit
	Version bool   // print the version and exit
	flags   *pflag.FlagSet
}

// ErrHelp is returned by ParseArgs when help was asked for.
var ErrHelp = pflag.ErrHelp

// keyFlags are the flags that set a key. Those with a kind of store say where leases live; one of them may be given.
var keyFlags = []struct{ name, key, kind, usage string }{
	{"listen", "listen", "", "the `address` where clients connect"},
	{"ops-listen", "ops_listen", "", "the `address` of metrics and probes, empty for none"},
	{"admin-listen", "admin_listen", "", "the `address` where operators connect, empty for none"},
	{"log-level", "log.level", "", "the log's `level`: debug, info, warn or error"},
	{"log-format", "log.format", "", "the log's `format`: auto, json or console"},
	{
		"redis", "redis.addr", StoreStandalone,
		"keep leases in the Redis at this `address`: HOST:PORT, redis://… or rediss://…",
	},
	{
		"redis-sentinel", "redis.sentinel.addrs", StoreSentinel,
		"keep leases in the Redis that sentinels call the `master`: MASTER@HOST:PORT,HOST:PORT,…",
	},
	{
		"redis-cluster", "redis.cluster.addrs", StoreCluster,
		"keep leases in the Redis Cluster of these `nodes`: HOST:PORT,HOST:PORT,…",
	},
	{
		"redlock", "redlock.members", StoreRedlock,
		"keep leases in a majority of these `masters`: HOST:PORT,HOST:PORT,HOST:PORT,…",
	},
}

// Usage is the help of the command line.
func Usage() string {
	return "lockd is a lock broker.\n\nUsage: lockd [flags]\n\n" + newFlags(&Args{}).FlagUsages() +
		"\nEvery key of the file can be set by a variable, too: session.ttl by LOCKD_SESSION_TTL.\n" +
		"Flags override variables, which override the file.\n\n" +
		"Exit codes: 0 stopped as asked, 1 failed, 2 wrong command line, 78 wrong configuration.\n"
}

func newFlags(a *Args) *pflag.FlagSet {
	fs := pflag.NewFlagSet("lockd", pflag.ContinueOnError)
	fs.SortFlags, fs.Usage = false, func() {}
	defaults := withDefaults()
	for _, f := range keyFlags {
		fs.String(f.name, defaults.GetString(f.key), f.usage)
	}
	fs.StringVar(&a.File, "config", "", "read this `file`")
	fs.String("check-config", "", "validate this `file` and exit")
	fs.BoolVar(&a.Version, "version", false, "print the version and exit")
	return fs
}

// ParseArgs reads the command line, without the program's name.
func ParseArgs(args []string) (a Args, err error) {
	a.flags = newFlags(&a)
	if err := a.flags.Parse(args); err != nil {
		return Args{}, err
	}
	var stores []string
	for _, f := range keyFlags {
		if f.kind != "" && a.flags.Changed(f.name) {
			stores = append(stores, "--"+f.name)
		}
	}
	sentinels := a.flags.Lookup("redis-sentinel")
	master, addrs, _ := strings.Cut(sentinels.Value.String(), "@")
	check := a.flags.Lookup("check-config")
	switch {
	case a.flags.NArg() > 0:
		err = fmt.Errorf("lockd takes flags only, not %q", strings.Join(a.flags.Args(), " "))
	case len(stores) > 1:
		err = fmt.Errorf("%s exclude each other", strings.Join(stores, " and "))
	case sentinels.Changed && (master == "" || addrs == ""):
		err = errors.New("--redis-sentinel must be MASTER@HOST:PORT,HOST:PORT,…, with the name that the sentinels have " +
			"for the master")
	case check.Changed && a.File != "":
		err = errors.New("--config and --check-config exclude each other")
	case check.Changed:
		a.File, a.Check = check.Value.String(), true
	}
	return a, err
}

// bind puts the flags above all other layers.
func (a Args) bind(v *viper.Viper) {
	for _, f := range keyFlags {
		flag := a.flags.Lookup(f.name)
		_ = v.BindPFlag(f.key, flag) // fails for no flag only
		if f.kind != "" && flag.Changed {
			v.Set("store.kind", f.kind)
		}
		if master, addrs, is := strings.Cut(flag.Value.String(), "@"); is && f.kind == StoreSentinel {
			v.Set("redis.sentinel.master", master)
			v.Set("redis.sentinel.addrs", addrs)
		}
	}
}
