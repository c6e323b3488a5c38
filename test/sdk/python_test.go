package sdk

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// pythonTime bounds what is run of Python.
const pythonTime = 30 * time.Minute

// TestPython runs the tests of the Python SDK, which is installed from its sources as its users do. Each file has a
// process of its own, so that they run side by side: they mostly wait.
func TestPython(t *testing.T) {
	t.Parallel()
	for _, runtimes := range []string{"newest", "oldest"} {
		t.Run(runtimes, func(t *testing.T) {
			if runtimes == "oldest" {
				tier.Long(t)
			}
			t.Parallel()
			p := installPython(t, runtimes)
			files, err := filepath.Glob(filepath.Join(p.tests, "test_*.py"))
			harness.Must(t, err)
			if len(files) == 0 {
				t.Fatal("there are no tests")
			}
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".py"), func(t *testing.T) {
					t.Parallel()
					p.run(t, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=600", file)
				})
			}
		})
	}
}

// TestPythonIsTypedAndTidy reads the code of the Python SDK.
func TestPythonIsTypedAndTidy(t *testing.T) {
	t.Parallel()
	p := installPython(t, "newest")
	settings, examples := filepath.Join(p.source, "pyproject.toml"), t.TempDir()
	harness.Must(t, os.CopyFS(examples, os.DirFS(filepath.Join(root, "examples/python"))))
	p.run(t, "-m", "ruff", "check", "--no-cache", "--config", settings, p.source, examples)
	p.run(t, "-m", "ruff", "format", "--no-cache", "--config", settings, "--check", p.source, examples)
	mypy := []string{"-m", "mypy", "--cache-dir", t.TempDir(), "--config-file", settings}
	p.run(t, append(mypy, "-p", "lockd")...)
	p.run(t, append(mypy, p.tests, filepath.Join(p.source, "bench.py"), examples)...)
}

// pythonSDK is the SDK as somebody installed it.
type pythonSDK struct{ python, source, installed, tests string }

func installPython(t *testing.T, runtimes string) pythonSDK {
	t.Helper()
	python, err := filepath.Abs(filepath.Join(root, ".cache/pythonsdk", runtimes, "bin/python"))
	harness.Must(t, err)
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the runtimes are missing; run: scripts/ensure pythonsdk (%v)", err)
	}
	p := pythonSDK{python: python, source: t.TempDir(), installed: t.TempDir()}
	p.tests = filepath.Join(p.source, "tests")
	stubs := t.TempDir()
	// What is copied is read, so that go test does not take a cached result after a change.
	harness.Must(t, os.CopyFS(stubs, os.DirFS(filepath.Join(root, "api/gen/python"))))
	harness.Must(t, os.CopyFS(p.source, os.DirFS(filepath.Join(root, "sdk/python"))))
	p.run(t, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
		"--no-build-isolation", "--target", p.installed, stubs, p.source)
	harness.Must(t, os.RemoveAll(filepath.Join(p.source, "build")))
	return p
}

// run runs Python with the SDK.
func (p pythonSDK) run(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pythonTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.python, args...)
	cmd.Dir = p.installed
	cmd.Env = append(os.Environ(), "PYTHONPATH="+p.installed, "PYTHONDONTWRITEBYTECODE=1", "LOCKD_TEST_BINARY="+lockdBin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("python %v: %v\n%s", args, err, out)
	}
}
