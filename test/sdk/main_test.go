package sdk

import (
	"flag"
	"os"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

const root = "../.."

// lockdBin is the server under test.
var lockdBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "6", Before: func() (err error) {
		lockdBin, err = harness.Build("lockd")
		return err
	}}))
}
