package config

import (
	"errors"
	"fmt"
	"slices"
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

// keyFlags are the flags that set a key.
var keyFlags = []struct{ name, key, usage string }{
	{"listen", "listen", "the `address` where clients connect"},
	{"ops-listen", "ops_listen", "the `address` of metrics and probes, empty for none"},
	{"admin-listen", "admin_listen", "the `address` where operators connect, empty for none"},
	{"http-listen", "http_listen", "the `address` where clients connect by HTTP, empty for none"},
	{"console-listen", "console_listen", "the `address` of pages for people, empty for none"},
	{"log-level", "log.level", "the log's `level`: debug, info, warn or error"},
	{"log-format", "log.format", "the log's `format`: auto, json or console"},
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
	fs.String("redis", "", "keep leases in the Redis at this `address`: HOST:PORT, redis://…, rediss://…,\n"+
		"unix:///PATH, sentinel://MASTER@HOST:PORT,HOST:PORT,… or cluster://HOST:PORT,HOST:PORT,…")
	fs.String("redlock", "", "keep leases in a majority of these `masters`: HOST:PORT,HOST:PORT,HOST:PORT,…")
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
	check := a.flags.Lookup("check-config")
	switch {
	case a.flags.NArg() > 0:
		err = fmt.Errorf("lockd takes flags only, not %q", strings.Join(a.flags.Args(), " "))
	case a.flags.Changed("redis") && a.flags.Changed("redlock"):
		err = errors.New("--redis and --redlock exclude each other")
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
		_ = v.BindPFlag(f.key, a.flags.Lookup(f.name)) // fails for no flag only
	}
	set := func(kind string, keys ...string) {
		v.Set("store.kind", kind)
		for pair := range slices.Chunk(keys, 2) {
			v.Set(pair[0], pair[1])
		}
	}
	if masters := a.flags.Lookup("redlock"); masters.Changed {
		set(StoreRedlock, "redlock.members", masters.Value.String())
	}
	redis := a.flags.Lookup("redis")
	scheme, rest, _ := strings.Cut(redis.Value.String(), "://")
	master, addrs, _ := strings.Cut(rest, "@")
	switch {
	case !redis.Changed:
	case scheme == StoreSentinel:
		set(StoreSentinel, "redis.sentinel.master", master, "redis.sentinel.addrs", addrs)
	case scheme == StoreCluster:
		set(StoreCluster, "redis.cluster.addrs", rest)
	default:
		set(StoreStandalone, "redis.addr", redis.Value.String())
	}
}
