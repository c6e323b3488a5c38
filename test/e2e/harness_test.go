package e2e

import (
	"errors"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

const (
	// patience bounds what should come soon and has no time of its own.
	patience = 20 * time.Second
)

// The programs under test.
var lockdBin, lockctlBin string

func TestMain(m *testing.M) {
	flag.Parse()
	if addr := os.Getenv(heldEnv); addr != "" {
		os.Exit(holdForParent(addr))
	}
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "12", Patience: patience, Before: build}))
}

// build builds the programs with the race detector.
func build() error {
	var errs [2]error
	lockdBin, errs[0] = harness.Build("lockd", "-race")
	lockctlBin, errs[1] = harness.Build("lockctl", "-race")
	return errors.Join(errs[:]...)
}

// startLockd runs a server before a Redis, with further variables such as "LOCKD_SESSION_TTL=3s".
func startLockd(t *testing.T, redis string, env ...string) *harness.Lockd {
	t.Helper()
	return harness.StartLockd(t, lockdBin, redis, env...)
}
