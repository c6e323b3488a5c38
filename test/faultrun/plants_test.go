package faultrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// plant is a bug of lockd: some of its source as it should not be.
type plant struct {
	file string // below the module
	from string // that is there once
	to   string
}

// plants are the bugs that a rolling restart is tried with, and what is said of each: one of these.
var plants = map[string]struct {
	all  []plant
	want []string
}{
	"a drain that ends streams instead of having them left": {
		[]plant{{
			"internal/broker/drain.go", "s.Tell(session.Draining{Within: within/4*3 - at})",
			"s.end(session.ErrDraining, false)",
		}},
		[]string{"streams broke"},
	},
	"a place in a line that is not passed on": {
		[]plant{{
			"internal/broker/instead.go", "done := s.passOnPlace(req, from, to); done {",
			"done := s.passOnPlace(req, nil, to); false && done {",
		}},
		[]string{"not served in order"},
	},
	"a replica that releases what its session took along": {
		[]plant{
			{"internal/broker/session.go", "\t\trelease = false\n", "\t\trelease = true\n"},
			{"internal/broker/session.go", "if !s.endRecord() {", "if false {"},
		},
		[]string{"the server knows of the fence 0", "two holders", "not held"},
	},
}

// Where a plant goes is still there.
func TestPlantsFindTheirPlace(t *testing.T) {
	for what, row := range plants {
		if _, err := planted(row.all); err != nil {
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
			bin, err := buildPlanted(t, row.all)
			if err != nil {
				t.Fatal(err)
			}
			l := shortLoad
			l.rounds = 2
			err = newFleet(t, bin, oneRedis, 30*time.Second).roll(l)
			if err == nil || !contains(err.Error(), row.want) {
				t.Errorf("got %v, want one of %q", err, row.want)
			}
		})
	}
}

// planted are the sources with plants, by file.
func planted(all []plant) (sources map[string]string, err error) {
	sources = map[string]string{}
	for _, p := range all {
		file, err := filepath.Abs(filepath.Join("..", "..", p.file))
		if err != nil {
			return nil, err
		}
		if sources[file] == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			sources[file] = string(text)
		}
		if strings.Count(sources[file], p.from) != 1 {
			return nil, errors.New(p.file + " does not have this once: " + p.from)
		}
		sources[file] = strings.Replace(sources[file], p.from, p.to, 1)
	}
	return sources, nil
}

// buildPlanted builds lockd with other sources in the place of some.
func buildPlanted(t *testing.T, all []plant) (bin string, err error) {
	t.Helper()
	dir := t.TempDir()
	sources, err := planted(all)
	if err != nil {
		return "", err
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range sources {
		with := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(with, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[file] = with
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", err
	}
	bin = filepath.Join(dir, "lockd")
	const lockd = "github.com/lockd-io/lockd/cmd/lockd"
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay="+file, "-o", bin, lockd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
}
