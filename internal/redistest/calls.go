package redistest

import "slices"

// Calls says whether a command calls one of some scripts, by their SHA-1.
func Calls(shas ...string) func(args []any) bool {
	return func(args []any) bool {
		if len(args) < 2 {
			return false
		}
		sha, ok := args[1].(*string)
		return ok && slices.Contains(shas, *sha)
	}
}
