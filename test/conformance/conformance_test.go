package conformance

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lockd-io/lockd/internal/tier"
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

// sdks are the languages that have an SDK, where the sources are, and how their drivers are started.
var sdks = []struct {
	name, sources string
	command       func(t testing.TB) []string
}{
	{"go", "driver", func(testing.TB) []string { return []string{driverBin} }},
	{"python", "../../sdk/python", func(t testing.TB) []string { return harness.PythonDriver(t, "") }},
	{"java", "../../sdk/java", harness.JavaDriver},
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
	// The sources are looked at, so that go test repeats no result that is older than they are.
	look := func(_ string, _ fs.DirEntry, err error) error { return err }
	for _, sdk := range sdks {
		harness.Must(t, filepath.WalkDir(sdk.sources, look))
		t.Run(sdk.name, func(t *testing.T) {
			t.Parallel()
			l := language{name: sdk.name, command: sdk.command(t)}
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

// TestLanguagesTogether plays scenarios in which each client is of another language: they elect one leader, wait in one
// queue, and tell each other the same. The first tier has elections and watches.
func TestLanguagesTogether(t *testing.T) {
	t.Parallel()
	scenarios, w := load(t), newWorld(t)
	var all []language
	for _, sdk := range sdks {
		all = append(all, language{name: sdk.name, command: sdk.command(t)})
	}
	for i, sc := range scenarios {
		if len(sc.clients) < 2 || !tier.Pick(sc.file == "watch.yaml", true) {
			continue
		}
		t.Run(sc.title, func(t *testing.T) {
			t.Parallel()
			first := i % len(all)
			err := newPlay(t, w, sc).run(slices.Concat(all[first:], all[:first])...)
			if errors.Is(err, errUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
