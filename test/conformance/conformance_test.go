package conformance

import (
	"errors"
	"flag"
	"io/fs"
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

// sdks are the other languages, where their sources are, and how their drivers are started, if they can be.
var sdks = []struct {
	name, sources string
	command       func() []string
}{{"python", "../../sdk/python", python}, {"java", "../../sdk/java", func() []string { return nil }}}

// python runs the driver over the sources, in a venv that scripts/ensure pythonsdk makes.
func python() []string {
	venv := "../../.cache/pythonsdk/newest/bin/python"
	if _, err := os.Stat(venv); err != nil {
		return nil
	}
	return []string{
		"env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=../../sdk/python/src:../../api/gen/python", venv,
		"../../sdk/python/tests/driver.py",
	}
}

// variableOf has the command line of a language's driver, if it is not the usual one.
func variableOf(language string) string { return "CONFORMANCE_" + strings.ToUpper(language) }

// languages are those that have an SDK. The sources are looked at, so that go test repeats no result that is older than
// they are.
func languages(t testing.TB) []language {
	t.Helper()
	look := func(_ string, _ fs.DirEntry, err error) error { return err }
	harness.Must(t, filepath.WalkDir("driver", look))
	all := []language{{name: "go", command: []string{driverBin}}}
	for _, sdk := range sdks {
		_ = filepath.WalkDir(sdk.sources, look) // they may be elsewhere
		l := language{name: sdk.name, command: strings.Fields(os.Getenv(variableOf(sdk.name)))}
		if len(l.command) == 0 {
			l.command = sdk.command()
		}
		all = append(all, l)
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
	t.Parallel()
	scenarios, w := load(t), newWorld(t)
	for _, l := range languages(t) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if len(l.command) == 0 {
				t.Skip(variableOf(l.name) + " has no command line of a driver")
			}
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
