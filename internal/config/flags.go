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

	layers *viper.Viper // has what variables and flags say
}

// ParseArgs reads the command line, without the program's name. If it asks for help, ParseArgs prints the help and
// returns pflag.ErrHelp.
func ParseArgs(args []string) (a Args, err error) {
	fs := newFlags(&a)
	if err := fs.Parse(args); err != nil {
		return Args{}, err
	}
	if fs.NArg() > 0 {
		return Args{}, fmt.Errorf("lockd takes flags only, not %q", strings.Join(fs.Args(), " "))
	}
	for one, other := range map[string]string{"redis": "redlock", "config": "check-config"} {
		if fs.Changed(one) && fs.Changed(other) {
			return Args{}, fmt.Errorf("--%s and --%s exclude each other", one, other)
		}
	}
	a.Check = fs.Changed("check-config")
	return a, nil
}

func newFlags(a *Args) *pflag.FlagSet {
	a.layers = viper.New()
	fs := pflag.NewFlagSet("lockd", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {
		fmt.Print("lockd is a lock broker.\n\nUsage: lockd [flags]\n\n" + fs.FlagUsages() +
			"\nEvery key of the file can be set by a variable, too: session.ttl by LOCKD_SESSION_TTL.\n" +
			"Flags override variables, which override the file.\n\n" +
			"Exit codes: 0 stopped as asked, 1 failed, 2 wrong command line, 78 wrong configuration, or another one\n" +
			"than the replicas that run.\n")
	}
	for _, k := range keysOf(new(Config)) {
		_ = a.layers.BindEnv(k.name, k.variable()) // fails without a name only
		usage, ok := k.tag.Lookup("flag")
		if !ok {
			continue
		}
		if words := k.words(); len(words) > 0 {
			usage += ": " + strings.Join(words, ", ")
		}
		name := strings.NewReplacer(".", "-", "_", "-").Replace(k.name)
		fs.String(name, k.tag.Get("default"), "the "+strings.NewReplacer("<", "`", ">", "`").Replace(usage))
		_ = a.layers.BindPFlag(k.name, fs.Lookup(name)) // fails for no flag only
	}
	from := func(keys func(string) map[string]string) func(string) error {
		return func(servers string) error {
			for name, text := range keys(servers) {
				a.layers.Set(name, text)
			}
			return nil
		}
	}
	fs.Func("redis", "keep leases in the Redis at this `address`: HOST:PORT, redis://…, rediss://…,\n"+
		"unix:///PATH, sentinel://MASTER@HOST:PORT,HOST:PORT,… or cluster://HOST:PORT,HOST:PORT,…", from(topology.Keys))
	fs.Func("redlock", "keep leases in a majority of these `masters`: HOST:PORT,HOST:PORT,HOST:PORT,…",
		from(topology.MajorityKeys))
	fs.StringVar(&a.File, "config", "", "read this `file`")
	fs.StringVar(&a.File, "check-config", "", "validate this `file` and exit")
	fs.BoolVar(&a.Version, "version", false, "print the version and exit")
	return fs
}
