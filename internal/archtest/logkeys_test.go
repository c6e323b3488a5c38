package archtest

import (
	"regexp"
	"strings"
	"testing"
)

// literalKey is a log field whose key is written where it is logged.
var literalKey = regexp.MustCompile(`\bzap\.[A-Z]\w*\("`)

// One thing has one name in all log lines: the keys are the constants of package observe.
func TestKeysOfLogFieldsAreConstants(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") || !isBelowAny(f.path, []string{"internal", "cmd"}) {
			continue
		}
		for _, found := range literalKey.FindAllString(f.text, -1) {
			t.Errorf("%s: %s...: use a constant of internal/observe", f.path, found)
		}
	}
}
