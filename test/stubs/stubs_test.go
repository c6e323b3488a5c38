package stubs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/lockdtest"
)

const (
	root = "../.."
	// buildTime bounds a build, which may have to fetch the runtimes.
	buildTime = 10 * time.Minute
	// runTime bounds a client.
	runTime = time.Minute
)

// The runtimes of Java. Those of Python are in python/oldest.txt and newest.txt.
var javaRuntimes = map[string][]string{
	"oldest": {"-Dgrpc.version=1.62.2", "-Dprotobuf.version=3.25.1"},
	"usual":  {}, // what the pom asks for
	"newest": {"-Dgrpc.version=1.83.1", "-Dprotobuf.version=4.36.2"},
}

func TestPythonClientLocksWithTheOldestAndTheNewestRuntimes(t *testing.T) {
	needs(t, filepath.Join(root, "api/gen/python"), "python")
	server := lockdtest.Start(t)
	for _, runtimes := range []string{"oldest", "newest"} {
		t.Run(runtimes, func(t *testing.T) {
			python := filepath.Join(root, ".cache/stubs", runtimes, "bin/python")
			if _, err := os.Stat(python); err != nil {
				t.Fatalf("the runtimes are missing; run: scripts/ensure stubs (%v)", err)
			}
			source, installed := t.TempDir(), t.TempDir()
			if err := os.CopyFS(source, os.DirFS(filepath.Join(root, "api/gen/python"))); err != nil {
				t.Fatal(err)
			}
			run(t, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps",
				"--no-build-isolation", "--target", installed, source)
			// Its dependencies are those of the venv: pip check would find one that is too old or too new.
			cmd := exec.CommandContext(t.Context(), python, "python/client.py", server.Addr, "python-"+runtimes)
			cmd.Env = append(os.Environ(), "PYTHONPATH="+installed, "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=error")
			locksAndUnlocks(t, cmd, server.Addr, "python-"+runtimes)
			runsThePages(t, python, installed, server.Addr)
		})
	}
}

func TestJavaClientLocksWithTheOldestAndTheNewestRuntimes(t *testing.T) {
	if testing.Short() {
		t.Skip("Maven takes half a minute for each set of runtimes")
	}
	needs(t, filepath.Join(root, "api/gen/java"), "java")
	server := lockdtest.Start(t)
	for runtimes, versions := range javaRuntimes {
		t.Run(runtimes, func(t *testing.T) {
			tree := filepath.Join(t.TempDir(), "lockd")
			for _, dir := range []string{"api/gen/java", "test/stubs/java"} {
				copyTree(t, filepath.Join(root, dir), filepath.Join(tree, dir))
			}
			project := filepath.Join(tree, "test/stubs/java")
			run(t, "mvn", append([]string{"--quiet", "--batch-mode", "--file", project, "package"}, versions...)...)
			target := filepath.Join(project, "client/target")
			cmd := exec.CommandContext(t.Context(), "java", "-cp",
				filepath.Join(target, "classes")+":"+filepath.Join(target, "lib/*"),
				"io.lockd.stubs.Client", server.Addr, "java-"+runtimes)
			locksAndUnlocks(t, cmd, server.Addr, "java-"+runtimes)
		})
	}
}

// needs opens what a test depends on, so that go test does not take a cached result after a change.
func needs(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(path)
			if err == nil {
				err = f.Close()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// copyTree copies sources without what was built of them.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "target" {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), text, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// locksAndUnlocks runs a client and looks from outside whether it holds the lock while it says so.
func locksAndUnlocks(t *testing.T, cmd *exec.Cmd, addr, name string) {
	t.Helper()
	complaints := new(strings.Builder)
	cmd.Stderr = complaints
	in, out := pipes(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(runTime, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	said := func(want string) {
		t.Helper()
		if line, _ := out.ReadString('\n'); !strings.HasPrefix(line, want) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the client said %q, want %q\n%s", line, want, complaints)
		}
	}
	c, err := client.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()

	said("locked ")
	if !held(t, c, name) {
		t.Error("the client says that it has the lock, and somebody else got it")
	}
	if _, err := io.WriteString(in, "\n"); err != nil {
		t.Fatal(err)
	}
	said("released")
	if held(t, c, name) {
		t.Error("the client says that it released the lock, and it is held")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the client ended with %v\n%s", err, complaints)
	}
	if text := complaints.String(); text != "" {
		t.Errorf("the client complained: %s", text)
	}
}

func pipes(t *testing.T, cmd *exec.Cmd) (io.Writer, *bufio.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, bufio.NewReader(out)
}

// held says whether somebody has the lock.
func held(t *testing.T, c *client.Client, name string) bool {
	t.Helper()
	l, err := c.TryLock(t.Context(), name)
	if errors.Is(err, client.ErrHeld) {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return false
}
