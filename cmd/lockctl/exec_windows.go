package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// errNoExec: a command and all that it started must end with the lock, and Windows knows no groups of processes that
// could be ended together as exec does it.
var errNoExec = errors.New("exec is not there on Windows: use the Go SDK, or acquire and release")

func newExec(*options) *cobra.Command {
	return &cobra.Command{
		Use:                "exec",
		Short:              "Run a command while holding a lock (not on Windows)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return errNoExec },
	}
}
