// lockctl is the tool for people and scripts: it runs a program while holding a lock, shows who holds what, and
// measures. See the README, and lockctl --help.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	// The authorities of the web, for where the system has none: the container image has no files but the programs.
	_ "golang.org/x/crypto/x509roots/fallback"

	"github.com/lockd-io/lockd/client"
)

const (
	defaultAddr      = "127.0.0.1:7420"
	addrEnv          = "LOCKD_ADDR"
	adminPort        = 7422
	defaultAdminAddr = "127.0.0.1:7422"
	adminAddrEnv     = "LOCKD_ADMIN_ADDR"
)

var version string // set by release builds

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	o := &options{}
	root := newRoot(o)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	printError(stderr, err, format(args))
	return exitCode(err)
}

// options are the flags that all commands have.
type options struct {
	addr           string
	adminAddr      string
	output         string
	connectTimeout time.Duration
	clientName     string
	labels         map[string]string
	tls            tlsFlags
	tokenFile      string
	token          credentials.PerRPCCredentials // of the file, once it was read
}

// format is the output format of errors, which may be about the flags themselves.
func format(args []string) string {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Usage, flags.ParseErrorsAllowlist.UnknownFlags = func() {}, true
	format := flags.StringP("output", "o", outputText, "")
	_ = flags.Parse(args) // what is wrong is told already
	return *format
}

func newRoot(o *options) *cobra.Command {
	root := &cobra.Command{
		Use:   "lockctl",
		Short: "Use and look at the locks of lockd",
		Long: `lockctl uses and looks at the locks of lockd.

Exit codes: 0 done; 1 not held, or failed; 2, 3 the worst that doctor found is a warning, an error; 64 wrong
usage; 69 server unavailable; 70 the lock was lost; 75 the lock was not obtained in time; 77 not allowed; 128+n
ended by signal n. exec passes on the code of its command. Errors are told on stderr, with their
machine-readable reason in front.`,
		Version:       cmp.Or(version, "unknown"),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				hint = "; did you mean " + strings.Join(like, " or ") + "?"
			}
			return usagef("there is no command %s%s; see lockctl --help", quoted(args[0]), hint)
		},
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			return cmp.Or(checkTexts(cmd, args), checkNames(cmd, args), checkOutput(o.output))
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&o.addr, "addr", cmp.Or(os.Getenv(addrEnv), defaultAddr),
		"the server's `HOST:PORT`, or several, separated by commas; the port is 7420 if there is none. "+
			"The default can be set by "+addrEnv)
	flags.StringVar(&o.adminAddr, "admin-addr", cmp.Or(os.Getenv(adminAddrEnv), defaultAdminAddr),
		"the server's `HOST:PORT` for operators, used by unlock, end, drain, doctor, "+
			"limit --remove and limit --adopt; the port is 7422 if there is none. "+
			"The default can be set by "+adminAddrEnv+". Empty is --addr")
	flags.StringVarP(&o.output, "output", "o", outputText, "`text` or json, where a command prints something")
	flags.DurationVar(&o.connectTimeout, "connect-timeout", 5*time.Second, "how long to try to reach the server")
	flags.StringVar(&o.clientName, "client-name", "",
		"what people who look at locks see as the client (default `USER@HOST`, process id and command)")
	flags.StringToStringVar(&o.labels, "label", nil, "more for people who look at sessions; may be repeated: `KEY=VALUE`")
	o.tls.add(flags)
	flags.StringVar(&o.tokenFile, "token-file", client.TokenFileFromEnv(),
		"a `file` with a token to show to the server. The default can be set by LOCKD_TOKEN_FILE")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newExec(o), newAcquire(o), newExtend(o), newRelease(o), newLimit(o),
		newList(o), newInspect(o), newWaiters(o), newWatch(o), newHistory(o), newTop(o), newSessions(o),
		newDeadlocks(o), newStatus(o), newDoctor(o),
		newWhoAmI(o), newCan(o), newUnlock(o), newEnd(o), newDrain(o), newBench(o), newVersion(o),
	)
	o.assist(root)
	return root
}

// checkTexts refuses texts that are not UTF-8 before the server is asked: no message can have one. The command of exec
// may have any bytes.
func checkTexts(cmd *cobra.Command, args []string) error {
	if cmd.Name() == "exec" && len(args) > 1 {
		args = args[:1]
	}
	args = slices.Clip(args)
	cmd.Flags().Visit(func(f *pflag.Flag) { args = append(args, f.Value.String()) })
	if i := slices.IndexFunc(args, func(text string) bool { return !utf8.ValidString(text) }); i >= 0 {
		return usagef("%s is not valid UTF-8", quoted(args[i]))
	}
	return nil
}

// flagError is the usage error for a mistake in the flags.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("invalid argument %s for --%s: %w", quoted(bad.GetValue()), bad.GetFlag().Name, bad.Unwrap())
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}
