package stubs

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	root = "../.."
	// pipTime bounds the installation of stubs.
	pipTime = 10 * time.Minute
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "12"}))
}

// The runtimes of Java. Those of Python are in python/oldest.txt and newest.txt.
var javaRuntimes = map[string][]string{
	"oldest": {"-Dgrpc.version=1.62.2", "-Dprotobuf.version=3.25.1"},
	"usual":  {}, // what the pom asks for
	"newest": {"-Dgrpc.version=1.83.1", "-Dprotobuf.version=4.36.2", "-Dmaven.compiler.release=17"},
}

func TestPythonProgramsOfThePagesKeepToTheProtocol(t *testing.T) {
	t.Parallel()
	needs(t, "python")
	for _, runtimes := range []string{"oldest", "newest"} {
		t.Run(runtimes, func(t *testing.T) {
			if runtimes != "newest" {
				tier.Long(t)
			}
			t.Parallel()
			python, installed := installPython(t, runtimes)
			file := pageProgram(t, "hold.py", "python")
			keepsToTheProtocol(t, func(addr, name string) *proctest.Process {
				return proctest.Command(python, []string{
					"PYTHONPATH=" + installed, "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=error", "LOCKD_ADDR=" + addr,
				}, file, name)
			})
		})
	}
}

// installPython installs the stubs for the Python of a venv. Their dependencies are those of the venv: pip check would
// find one that is too old or too new.
func installPython(t *testing.T, runtimes string) (python, installed string) {
	t.Helper()
	python = filepath.Join(root, ".cache/stubs", runtimes, "bin/python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the runtimes are missing; run: scripts/ensure stubs (%v)", err)
	}
	source, installed := t.TempDir(), t.TempDir()
	harness.Must(t, os.CopyFS(source, os.DirFS(filepath.Join(root, "api/gen/python"))))
	run(t, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
		"--no-build-isolation", "--target", installed, source)
	return python, installed
}

func TestJavaProgramKeepsToTheProtocol(t *testing.T) {
	t.Parallel()
	for runtimes, versions := range javaRuntimes {
		t.Run(runtimes, func(t *testing.T) {
			if runtimes != "usual" {
				tier.Long(t)
			}
			t.Parallel()
			client := filepath.Join(buildJava(t, runtimes, versions), "test/stubs/java/client/target")
			keepsToTheProtocol(t, func(addr, name string) *proctest.Process {
				return proctest.Command("java", []string{"LOCKD_ADDR=" + addr}, "-XX:TieredStopAtLevel=1", "-cp",
					filepath.Join(client, "classes")+":"+filepath.Join(client, "lib/*"), "io.lockd.stubs.Client", name)
			})
		})
	}
}

// buildJava has Maven make the stubs and the program in a copy of their sources, when one of them has changed.
func buildJava(t *testing.T, runtimes string, versions []string) (tree string) {
	t.Helper()
	sources := []string{"api/proto", "api/gen/java", "test/stubs/java"}
	tree, err := harness.BuildMaven("stubs-"+runtimes+strings.Join(versions, ""), sources, "test/stubs/java",
		append([]string{"package"}, versions...)...)
	harness.Must(t, err)
	return tree
}

func TestNodeProgramKeepsToTheProtocol(t *testing.T) {
	t.Parallel()
	needs(t, filepath.Join(root, "api/proto"))
	needs(t, "node")
	modules, err := filepath.Abs(filepath.Join(root, ".cache/stubs/node/node_modules"))
	harness.Must(t, err)
	if _, err := os.Stat(modules); err != nil {
		t.Fatalf("the modules are missing; run: scripts/ensure stubs (%v)", err)
	}
	file := pageProgram(t, "hold.js", "js")
	keepsToTheProtocol(t, func(addr, name string) *proctest.Process {
		return proctest.Command("node", []string{"NODE_PATH=" + modules, "LOCKD_ADDR=" + addr}, file, name).In(root)
	})
}

// needs reads what a test depends on, so that go test does not take a cached result after a change.
func needs(t *testing.T, dir string) {
	t.Helper()
	harness.Must(t, os.CopyFS(t.TempDir(), os.DirFS(dir)))
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pipTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// pageProgram saves the first program of docs/stubs.md in a language, as its readers do.
func pageProgram(t *testing.T, name, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/stubs.md"))
	harness.Must(t, err)
	_, program, _ := strings.Cut(string(text), "```"+language+"\n")
	program, _, found := strings.Cut(program, "```")
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil || !found {
		t.Fatalf("docs/stubs.md has no program in %s: %v", language, err)
	}
	return file
}
