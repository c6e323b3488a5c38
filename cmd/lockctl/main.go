// lockctl is the tool for people and scripts: it runs a program while holding a lock, shows who holds what, and
// measures. See the README, and lockctl --help.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultAddr      = "127.0.0.1:7420"
	addrEnv          = "LOCKD_ADDR"
	defaultAdminAddr = "127.0.0.1:7422"
	adminAddrEnv     = "LOCKD_ADMIN_ADDR"
)

var version string // set by release builds

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	if text := message(err); text != "" {
		fmt.Fprintln(os.Stderr, "lockctl:", text)
	}
	return exitCode(err)
}

// options are the flags that all commands have.
type options struct {
	addr           string
	adminAddr      string
	output         string
	connectTimeout time.Duration
}

func newRoot() *cobra.Command {
	o := &options{}
	root := &cobra.Command{
		Use:   "lockctl",
		Short: "Use and look at the locks of lockd",
		Long: `lockctl uses and looks at the locks of lockd.

Exit codes: 0 done; 1 not held, or failed; 64 wrong usage; 69 server unavailable; 70 the lock was lost; 75 the lock
was not obtained in time; 77 not allowed; 128+n ended by signal n. exec passes on the code of its command. Errors are
told on stderr, with their machine-readable reason in front.`,
		Version:           cmp.Or(version, "unknown"),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("there is no command %q; see lockctl --help", args[0])
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return checkOutput(o.output) },
	}
	flags := root.PersistentFlags()
	flags.StringVar(&o.addr, "addr", cmp.Or(os.Getenv(addrEnv), defaultAddr), "the server's `HOST:PORT`; the default can be set by "+addrEnv)
	flags.StringVar(&o.adminAddr, "admin-addr", cmp.Or(os.Getenv(adminAddrEnv), defaultAdminAddr),
		"the server's `HOST:PORT` for operators, used by unlock; the default can be set by "+adminAddrEnv)
	flags.StringVarP(&o.output, "output", "o", outputText, "`text` or json, where a command prints something")
	flags.DurationVar(&o.connectTimeout, "connect-timeout", 5*time.Second, "how long to try to reach the server")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		newExec(o), newAcquire(o), newExtend(o), newRelease(o),
		newList(o), newInspect(o), newWatch(o), newUnlock(o), newBench(o),
	)
	return root
}
