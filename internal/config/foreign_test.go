package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// A shell has variables of clients that lockd, started there, must not take for keys of its own.
func TestVariablesOfClientsAreNotKeys(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range []string{"../../cmd/lockctl", "../../client"} {
		files, err := filepath.Glob(dir + "/*.go")
		must(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			must(t, err)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(`"(LOCKD_[A-Z_]+)=?"`).FindAllStringSubmatch(string(source), -1) {
				found[m[1]] = true
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("found only %v", found)
	}
	for name := range found {
		if got, err := load(t, "", []string{name + "=x"}); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
