package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/lockd-io/lockd/internal/topology"
)

// Args is what the command line says.
type Args struct {
	File    string // the configuration file; empty = none
	Check   bool   // validate and exit
	Version bool   // print the version and exit
	flags   *pflag.FlagSet
	store   map[string]string // keys that --redis or --redlock set
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

func newFlags(a *Args) *pflag.FlagSet {
	fs := pflag.NewFlagSet("lockd", pflag.ContinueOnError)
	fs.SortFlags, fs.Usage = false, func() {}
	for _, k := range keysOf(new(Config)) {
		if usage, ok := k.tag.Lookup("flag"); ok {
			if words := k.words(); len(words) > 0 {
				usage += ": " + strings.Join(words, ", ")
			}
			fs.String(k.flag(), k.tag.Get("default"), strings.NewReplacer("<", "`", ">", "`").Replace(usage))
		}
	}
	fs.Func("redis", "keep leases in the Redis at this `address`: HOST:PORT, redis://…, rediss://…,\n"+
		"unix:///PATH, sentinel://MASTER@HOST:PORT,HOST:PORT,… or cluster://HOST:PORT,HOST:PORT,…", func(at string) error {
		a.store = topology.Keys(at)
		return nil
	})
	fs.Func("redlock", "keep leases in a majority of these `masters`: HOST:PORT,HOST:PORT,HOST:PORT,…", func(at string) error {
		a.store = map[string]string{"store.kind": topology.Redlock, "redlock.members": at}
		return nil
	})
	fs.StringVar(&a.File, "config", "", "read this `file`")
	fs.Func("check-config", "validate this `file` and exit", func(path string) error {
		a.File, a.Check = path, true
		return nil
	})
	fs.BoolVar(&a.Version, "version", false, "print the version and exit")
	return fs
}

// ParseArgs reads the command line, without the program's name.
func ParseArgs(args []string) (a Args, err error) {
	a.flags = newFlags(&a)
	if err := a.flags.Parse(args); err != nil {
		return Args{}, err
	}
	if a.flags.NArg() > 0 {
		return Args{}, fmt.Errorf("lockd takes flags only, not %q", strings.Join(a.flags.Args(), " "))
	}
	for one, other := range map[string]string{"redis": "redlock", "config": "check-config"} {
		if a.flags.Changed(one) && a.flags.Changed(other) {
			return Args{}, fmt.Errorf("--%s and --%s exclude each other", one, other)
		}
	}
	return a, nil
}

// bind puts the flags above all other layers.
func (a Args) bind(v *viper.Viper) {
	for _, k := range keysOf(new(Config)) {
		if _, ok := k.tag.Lookup("flag"); ok {
			_ = v.BindPFlag(k.name, a.flags.Lookup(k.flag())) // fails for no flag only
		}
	}
	for name, text := range a.store {
		v.Set(name, text)
	}
}
