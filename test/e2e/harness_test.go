package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

const (
	// longEnv asks for the tests that take minutes.
	longEnv = "LOCKD_E2E_LONG"
	// sideBySide is how many tests run at a time among those that may: they mostly wait.
	sideBySide = "12"
	// patience bounds what should come soon and has no time of its own.
	patience = 20 * time.Second
)

// The programs under test.
var lockdBin, lockctlBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if addr := os.Getenv(heldEnv); addr != "" {
		return holdForParent(addr)
	}
	redis.SetLogger(quiet{})
	if err := widen(); err != nil {
		return failed(err)
	}
	dir, err := os.MkdirTemp("", "lockd-e2e")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is in the system's temporary directory anyway
	if err := build(dir); err != nil {
		return failed(err)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		return failed(err)
	}
	return code
}

// readSources looks at the sources of the programs, once. go test repeats a cached result unless what the tests
// themselves looked at has changed, and what go build looks at does not count.
var readSources = sync.OnceValue(func() error {
	var errs []error
	for _, dir := range []string{"api/gen/go", "client", "cmd", "internal"} {
		errs = append(errs, filepath.WalkDir(filepath.Join("..", "..", dir), func(_ string, _ fs.DirEntry, err error) error { return err }))
	}
	return errors.Join(errs...)
})

// widen lets more tests run side by side than there are processors, unless the command line says how many.
func widen() error {
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", sideBySide)
}

// quiet takes the place of go-redis's logger: that a server is not there yet, or any more, is what tests are about.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func build(dir string) error {
	const cmds = "github.com/lockd-io/lockd/cmd/"
	lockdBin, lockctlBin = filepath.Join(dir, "lockd"), filepath.Join(dir, "lockctl")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-race", "-o", dir, cmds+"lockd", cmds+"lockctl")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "e2e:", err)
	return 1
}

// until waits for something that has no signal.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, patience, what, holds)
}

func within(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// soon receives from a channel on which something must come.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("not within %v: %s", patience, what)
		panic("unreachable")
	}
}
