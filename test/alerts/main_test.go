package alerts

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

var (
	prometheusBin = flag.String("prometheus", "", "the program Prometheus; without it no alert is fired")
	exporterBin   = flag.String("exporter", "", "the program that exports metrics of Redis")
	healthy       = flag.Duration("healthy", time.Minute, "for how long nothing fails, and nothing may fire")
)

var lockdBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "3", Before: build}))
}

func build() (err error) {
	if *prometheusBin == "" {
		return nil
	}
	for _, bin := range []*string{prometheusBin, exporterBin} {
		if *bin, err = filepath.Abs(*bin); err != nil {
			return err
		}
	}
	lockdBin, err = harness.Build("lockd")
	return err
}

// needPrometheus says who runs the tests that fire alerts.
func needPrometheus(t *testing.T) {
	t.Helper()
	if *prometheusBin == "" {
		t.Skip("make test-alerts runs this")
	}
}
