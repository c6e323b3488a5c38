package compat

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

var oldSource = flag.String("old", "", "the directory of an earlier commit; without it nothing is compared")

// programs are lockd and lockctl of one commit.
type programs struct{ name, lockd, lockctl string }

var older, newer = programs{name: "old"}, programs{name: "new"}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "2", Before: build}))
}

func build() (err error) {
	if *oldSource == "" {
		return nil
	}
	var errs [3]error
	newer.lockd, errs[0] = harness.Build("lockd")
	newer.lockctl, errs[1] = harness.Build("lockctl")
	bin := filepath.Join(*oldSource, "bin")
	cmd := exec.Command("go", "-C", *oldSource, "build", "-buildvcs=false", "-o", bin+"/", "./cmd/lockd", "./cmd/lockctl")
	cmd.Stderr = os.Stderr
	errs[2] = cmd.Run()
	older.lockd, older.lockctl = filepath.Join(bin, "lockd"), filepath.Join(bin, "lockctl")
	return errors.Join(errs[:]...)
}

func needOld(t *testing.T) {
	t.Helper()
	if *oldSource == "" {
		t.Skip("make test-compat runs this")
	}
}
