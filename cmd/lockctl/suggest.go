package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxTypos is how many letters of a flag may be wrong, missing or too many for it to be suggested.
const maxTypos = 2

// flagError is the usage error for a mistake in the flags. A flag that there is not is compared with those that there
// are.
func flagError(cmd *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("invalid argument %s for --%s: %w", quoted(bad.GetValue()), bad.GetFlag().Name, bad.Unwrap())
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError{err}
	}
	name := missing.GetSpecifiedName()
	var similar []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 && (typos(name, f.Name) <= maxTypos || strings.HasPrefix(f.Name, name)) {
			similar = append(similar, "--"+f.Name)
		}
	})
	return usagef("%w%s; see %s --help", err, didYouMean(similar), cmd.CommandPath())
}

func didYouMean(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(words, " or ") + "?"
}

// typos is the edit distance of two words: how many letters have to be changed, added or taken away.
func typos(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			change := before[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
