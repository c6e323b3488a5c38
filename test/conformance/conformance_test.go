package conformance

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

// The programs under test.
var lockdBin, driverBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "24", Before: func() error {
		var errs [2]error
		lockdBin, errs[0] = harness.Build("lockd")
		driverBin, errs[1] = harness.BuildPackage("test/conformance/driver", "-race")
		return errors.Join(errs[:]...)
	}}))
}

// languages are those whose driver is there. That of Go always is.
func languages() []language {
	all := []language{{name: "go", command: []string{driverBin}}}
	for name, variable := range map[string]string{"python": "CONFORMANCE_PYTHON", "java": "CONFORMANCE_JAVA"} {
		if command := strings.Fields(os.Getenv(variable)); len(command) > 0 {
			all = append(all, language{name: name, command: command})
		}
	}
	return all
}

// load reads all scenarios.
func load(t testing.TB) (all []*scenario) {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	harness.Must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		harness.Must(t, err)
		scenarios, err := readScenarios(file, text)
		if err != nil {
			t.Error(err)
		}
		all = append(all, scenarios...)
	}
	if t.Failed() || len(all) == 0 {
		t.Fatalf("%d scenarios were read", len(all))
	}
	return all
}

func TestScenarios(t *testing.T) {
	scenarios, w := load(t), newWorld(t)
	for _, l := range languages() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, sc := range scenarios {
				t.Run(sc.title, func(t *testing.T) {
					t.Parallel()
					err := newPlay(t, w, sc).run(l)
					if errors.Is(err, errUnsupported) {
						t.Skip(err)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}
