package main

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// examples are shown in the help of each command.
var examples = map[string]string{
	"acquire":   "lockctl acquire invoice --lease 1m --wait 10s\nlockctl acquire render --lease 5m --limit 3",
	"bench":     "lockctl bench --callers 64 --duration 10s",
	"can":       "lockctl can lock invoice:17\nlockctl can drain",
	"deadlocks": "lockctl deadlocks",
	"doctor":    "lockctl doctor\nlockctl doctor --all -o json",
	"drain":     "lockctl drain --admin-addr 10.0.0.5:7422\nlockctl drain --undo --admin-addr 10.0.0.5:7422",
	"exec": "lockctl exec nightly-report --wait 0 -- ./report.sh\n" +
		"lockctl exec render --limit 3 -- ./render.sh    # at most three at a time\n" +
		"lockctl exec account:17 --also :account:4 --also read:rates -- ./transfer.sh",
	"extend":   "lockctl extend invoice \"$lease_id\" --lease 1m",
	"end":      "lockctl end 5b1e7a52-0d1f-4c3a-9c7e-2f6d1c0b8e4a --force --reason 'its host burned down'",
	"history":  "lockctl history orders/42\nlockctl history orders/42 --at 03:12",
	"inspect":  "lockctl inspect orders/42\nlockctl inspect orders/42 -o json",
	"limit":    "lockctl limit render\nlockctl limit render 5",
	"ls":       "lockctl ls --prefix orders/\nlockctl ls --min-age 10m",
	"release":  "lockctl release invoice \"$lease_id\"",
	"sessions": "lockctl sessions --client billing\nlockctl sessions --detached",
	"status":   "lockctl status --addr 10.0.0.5:7420",
	"top":      "lockctl top\nlockctl top --by held --window 10m",
	"unlock":   "lockctl unlock orders/42 --force --reason 'its host burned down'",
	"version":  "lockctl version",
	"waiters":  "lockctl waiters orders/42\nlockctl waiters --prefix orders/ --min-age 1m",
	"watch":    "lockctl watch orders/42",
	"whoami":   "lockctl whoami --token-file token",
}

// assist gives the commands their examples, and tells shells how to complete them.
func (o *options) assist(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions( // the flag is there
		[]cobra.Completion{outputText, outputJSON}, cobra.ShellCompDirectiveNoFileComp))
	for _, cmd := range root.Commands() {
		cmd.Example = indented(examples[cmd.Name()])
		if cmd.Flags().Lookup("kind") != nil {
			_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(
				[]cobra.Completion{"exclusive", "fair", "read", "write", "semaphore"}, cobra.ShellCompDirectiveNoFileComp))
		}
		cmd.ValidArgsFunction = o.complete
	}
}

func indented(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// nameAt is which argument of a command is the name of a lock, below 0 if none is.
func nameAt(cmd *cobra.Command) int {
	words := strings.Fields(cmd.Use)[1:]
	return slices.IndexFunc(words, func(word string) bool { return strings.Trim(word, "[]") == "NAME" })
}

var (
	errEmptyName = errors.New("a lock needs a name")
	errControls  = errors.New("a name has no control characters")
)

// checkNames refuses names that no server takes for a lock before the server is asked.
func checkNames(cmd *cobra.Command, args []string) error {
	at := nameAt(cmd)
	if at < 0 || len(args) <= at {
		return nil
	}
	switch name := args[at]; {
	case name == "":
		return failure{exitUsage, reasonName, errEmptyName}
	case strings.ContainsFunc(name, unicode.IsControl):
		return failure{exitUsage, reasonName, errControls}
	}
	return nil
}

// completionTime bounds how long a shell waits for names.
const completionTime = time.Second

// plain matches names that no shell interprets. Others are not offered: names come from strangers, and a completion
// must not run anything.
var plain = regexp.MustCompile(`^[\w./:@%+=,-]+$`)

// complete offers what may be the next argument: held names that begin with begun, or all verbs, of which the shell
// takes those that do. The command of exec is completed as shells do.
func (o *options) complete(cmd *cobra.Command, args []string, begun string) (
	[]cobra.Completion, cobra.ShellCompDirective,
) {
	const none = cobra.ShellCompDirectiveNoFileComp
	switch at := nameAt(cmd); {
	case cmd.Name() == "exec" && len(args) > at:
		return nil, cobra.ShellCompDirectiveDefault
	case cmd.Name() == "can" && len(args) == 0:
		return slices.Sorted(maps.Keys(verbs)), none
	case at < 0 || len(args) != at:
		return nil, none
	}
	s, err := o.dial()
	if err != nil {
		return nil, none
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), completionTime)
	defer cancel()
	page, err := s.reads.ListHolds(ctx, &lockdv1.ListHoldsRequest{Prefix: begun})
	if err != nil {
		return nil, none
	}
	var names []cobra.Completion
	for _, h := range page.GetHolds() {
		if plain.MatchString(h.GetLock().GetName()) {
			names = append(names, h.GetLock().GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names), none
}
