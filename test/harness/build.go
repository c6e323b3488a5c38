package harness

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds one of the programs below cmd/ with some flags, and returns its path. All packages of a checkout share
// what is built: who comes later finds it fresh.
func Build(program string, flags ...string) (string, error) {
	return BuildPackage("cmd/"+program, flags...)
}

// BuildPackage is Build for a program of any package of the module.
func BuildPackage(pkg string, flags ...string) (string, error) {
	dir, err := shared()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, sum(pkg+strings.Join(flags, " ")), filepath.Base(pkg))
	return bin, alone(dir, func() error {
		args := append(append([]string{"build", "-trimpath"}, flags...), "-o", bin, "github.com/lockd-io/lockd/"+pkg)
		cmd := exec.Command("go", args...)
		cmd.Dir = root() // the tests may be of another module, with other versions of what lockd needs
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
		return nil
	})
}

// BuildJava has Maven make the Java SDK and the examples with it, and returns the directory with the SDK's modules, of
// which each has a target.
func BuildJava() (modules string, err error) {
	const all, sdk = "test/harness/java", "sdk/java"
	dir, err := BuildMaven("java", []string{"api/proto", sdk, "examples/java", "examples/spring", all}, all, "package")
	return filepath.Join(dir, sdk), err
}

// BuildMaven has Maven build a project of this checkout in a copy of its sources, when one of them has changed. goals
// are the phase and what else Maven is told. It returns the directory of the copy, which all packages share. Other
// goals need another name.
func BuildMaven(name string, sources []string, project string, goals ...string) (dir string, err error) {
	all, err := shared()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(all, name)
	return dir, BuildOnce(dir, root(), sources, func() error {
		for _, source := range sources {
			to := filepath.Join(dir, source)
			if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(root(), source)))); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), mavenTime)
		defer cancel()
		// It takes all processors for a minute, and other tests run.
		pom := filepath.Join(dir, project)
		mvn := append([]string{"-n", "10", "mvn", "--quiet", "--batch-mode", "--file", pom}, goals...)
		if out, err := exec.CommandContext(ctx, "nice", mvn...).CombinedOutput(); err != nil {
			return fmt.Errorf("mvn %s (it comes with scripts/ensure java): %w\n%s", project, err, out)
		}
		return nil
	})
}

// mavenTime bounds a build, which may have to fetch what it needs.
const mavenTime = 30 * time.Minute

// BuildOnce calls build, unless it was called before for the same sources: files and directories in root. What
// is built stays in a directory, which has a note of the sources too.
func BuildOnce(dir, root string, sources []string, build func() error) error {
	return alone(dir, func() error {
		state, err := digest(root, sources)
		if err != nil {
			return err
		}
		stamp := filepath.Join(dir, "stamp")
		if made, err := os.ReadFile(stamp); err == nil && string(made) == state {
			return nil
		}
		if err := build(); err != nil {
			return err
		}
		return os.WriteFile(stamp, []byte(state), 0o600)
	})
}

// alone calls f while no other process does for this directory.
func alone(dir string, f func() error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return f()
}

// digest is that of all files, without what was built of them.
func digest(root string, sources []string) (string, error) {
	var all strings.Builder
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "target":
				return filepath.SkipDir
			case d.IsDir():
				return nil
			}
			text, err := os.ReadFile(path)
			_, _ = fmt.Fprintf(&all, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return sum(all.String()), nil
}

// shared is the directory for what all packages of this checkout share. It is not in the checkout, because go test
// repeats no result of a test that looked at a file of its module that has changed since. The file "checkout" in it
// says whose it is, so that what was built for a checkout that is gone can be removed.
var shared = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	all := filepath.Join(cache, "lockd-test")
	others, _ := filepath.Glob(filepath.Join(all, "*", "checkout"))
	for _, other := range others {
		checkout, err := os.ReadFile(other)
		if err != nil || len(checkout) == 0 || string(checkout) == root() { // empty: it is being written
			continue
		}
		if _, err := os.Stat(string(checkout)); errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(filepath.Dir(other))
		}
	}
	dir := filepath.Join(all, sum(root()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "checkout"), []byte(root()), 0o600)
})

// sum is a short name for a text.
func sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16] }

// root is the directory of this checkout. The tests may be of another module in it.
var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "harness")); err == nil {
			return dir
		}
	}
	panic(fmt.Sprint("these tests run in a checkout of lockd: ", err))
})

// readSources looks at the sources of the programs, once. go test repeats a cached result unless what the tests
// themselves looked at has changed, and what go build looks at does not count. The names are relative, as other
// checkouts share the results.
var readSources = sync.OnceValue(func() error {
	here, err := os.Getwd()
	errs := []error{err}
	look := func(_ string, _ fs.DirEntry, err error) error { return err }
	for _, dir := range []string{"api/gen/go", "client", "cmd", "examples/go", "internal"} {
		dir, err := filepath.Rel(here, filepath.Join(root(), dir))
		errs = append(errs, err, filepath.WalkDir(dir, look))
	}
	return errors.Join(errs...)
})
