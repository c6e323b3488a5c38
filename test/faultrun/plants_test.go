package faultrun

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// plants are the bugs that a rolling restart is tried with, and what is said of each: one of these.
var plants = map[string]struct {
	all  []proctest.Plant
	want []string
}{
	"a drain that ends streams instead of having them left": {
		[]proctest.Plant{{
			"internal/session/drain.go", "s.Tell(Draining{Within: within/4*3 - at})", "s.end(ErrDraining, false)",
		}},
		[]string{"streams broke"},
	},
	"a place in a line that is not passed on": {
		[]proctest.Plant{{
			"internal/broker/instead.go", "done := s.passOnPlace(req, from, w.Claim.Owner); done {",
			"done := s.passOnPlace(req, nil, w.Claim.Owner); false && done {",
		}},
		[]string{"not served in order"},
	},
	"a replica that releases what its session took along": {
		[]proctest.Plant{
			{
				"internal/session/end.go", "release && !errors.Is(cause, ErrSuperseded)",
				"release || errors.Is(cause, ErrSuperseded)",
			},
			{"internal/session/end.go", "if !s.endRecord() {", "if false {"},
		},
		[]string{"the server knows of the fence 0", "two holders", "not held"},
	},
}

// Where a plant goes is still there.
func TestPlantsFindTheirPlace(t *testing.T) {
	for what, row := range plants {
		if _, err := proctest.Planted(row.all); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The checks of a rolling restart find each planted bug.
func TestARollingRestartFindsPlantedBugs(t *testing.T) {
	if *length == 0 {
		t.Skip("builds lockd several times: make test-replicas, or -length 10s")
	}
	for what, row := range plants {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bin, err := proctest.BuildPlanted(t.Context(), t.TempDir(), row.all, "build", "github.com/lockd-io/lockd/cmd/lockd")
			harness.Must(t, err)
			l := shortLoad
			l.rounds = 2
			err = newFleet(t, 30*time.Second, func(w *world) { oneRedis(w); w.bin = bin }).roll(l)
			if err == nil || !contains(err.Error(), row.want) {
				t.Errorf("got %v, want one of %q", err, row.want)
			}
		})
	}
}
