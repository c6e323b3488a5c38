// Package harness is what tests of whole programs share: it runs lockd, lockctl and other programs as processes, calls
// them, and waits for what must happen. What a test starts ends with the test.
package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Settings are those of a package's tests.
type Settings struct {
	// SideBySide is how many tests run at a time among those that may, unless the command line says how many. It may
	// be more than there are processors: they mostly wait. Empty = as many as there are.
	SideBySide string
	// Before and After are called around the tests; nil = nothing.
	Before func() error
	After  func()
}

// Patience bounds what should come soon and has no time of its own. It is far more than a busy machine needs.
const Patience = 2 * time.Minute

// Run is what a TestMain does once the flags are parsed. It returns the exit code.
func Run(m *testing.M, s Settings) int {
	redis.SetLogger(quiet{})
	if err := s.begin(); err != nil {
		return Failed(err)
	}
	code := m.Run()
	if s.After != nil {
		s.After()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		return Failed(err)
	}
	return code
}

// WithLockd makes all tests share a lockd as it is shipped, with its leases in memory, and calls before with it.
func WithLockd(before func(*Lockd) error) Settings {
	var d *Lockd
	return Settings{
		Before: func() error {
			bin, err := Build("lockd")
			if err != nil {
				return err
			}
			d = &Lockd{bin: bin}
			if err := d.start(); err != nil {
				return err
			}
			return before(d)
		},
		After: func() { d.Kill() },
	}
}

func (s Settings) begin() error {
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said && s.SideBySide != "" {
		if err := flag.Set("test.parallel", s.SideBySide); err != nil {
			return err
		}
	}
	if s.Before == nil {
		return nil
	}
	return s.Before()
}

// Failed tells why there can be no tests, and is the exit code for that.
func Failed(err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
	return 1
}

// quiet takes the place of go-redis's logger: that a server is not there yet, or any more, is what tests are about.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Until waits for something that has no signal.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Within(t, Patience, what, holds)
}

// Within is Until with a bound of its own.
func Within(t testing.TB, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// Soon receives from a channel on which something must come.
func Soon[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		t.Fatalf("not within %v: %s", Patience, what)
		panic("unreachable")
	}
}
