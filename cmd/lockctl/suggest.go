package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError is the usage error for a mistake in the flags.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("invalid argument %s for --%s: %w", quoted(bad.GetValue()), bad.GetFlag().Name, bad.Unwrap())
	}
	return usagef("%w; see %s --help", err, cmd.CommandPath())
}

func didYouMean(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(words, " or ") + "?"
}
