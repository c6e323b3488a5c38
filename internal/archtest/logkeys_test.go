package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// literalKey is a log field whose key is written where it is logged.
var literalKey = regexp.MustCompile(`\bzap\.[A-Z]\w*\("`)

// One thing has one name in all log lines: the keys are the constants of package observe.
func TestKeysOfLogFieldsAreConstants(t *testing.T) {
	for path := range readSources(t) {
		if strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(path, "internal/") && !strings.HasPrefix(path, "cmd/") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range literalKey.FindAllString(string(source), -1) {
			t.Errorf("%s: %s...: use a constant of internal/observe", path, found)
		}
	}
}
