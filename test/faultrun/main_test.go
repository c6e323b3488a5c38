package faultrun

import (
	"flag"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

var (
	seed   = flag.Uint64("seed", 0, "chooses what fails and what clients do; 0 = any")
	length = flag.Duration("length", 0, "for how long things fail in each run; 0 = the checks of the checker only")
	away   = flag.String("away", "", "the addresses of replicas that run elsewhere, by spaces: only clients run here")
)

const (
	// long is from which -length on faults last for longer.
	long = 30 * time.Second
)

var lockdBin string

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "6", Before: build}))
}

func build() (err error) {
	if *away != "" {
		return nil
	}
	lockdBin, err = harness.Build("lockd", "-race")
	return err
}

// random is a source of its own for each thing in a run that chooses.
func random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(*seed, stream)) }
