package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// forgets are bugs of SDKs that leave something of a wait that ends.
var forgets = []struct {
	what, language string
	plant          proctest.Plant
}{
	{"Go sends no cancel", "go", proctest.Plant{
		"client/session.go", "lockdv1.Cancel{TargetId: id}", "lockdv1.Cancel{TargetId: id + 1<<40}",
	}},
	{"Go keeps a grant that comes after the cancel", "go", proctest.Plant{
		"client/read.go", "if c.abandoned || !right {\n\t\t\ts.submitLocked(l.releaseCall())",
		"if c.abandoned || !right {\n\t\t\t_ = l.releaseCall()",
	}},
	{"Python sends no cancel", "python", proctest.Plant{
		"sdk/python/src/lockd/_session.py", `self.submit(Call("cancel", pb.Cancel(target_id=call.id)))`, "pass",
	}},
	{"Python keeps a grant that comes after the cancel", "python", proctest.Plant{
		"sdk/python/src/lockd/_answers.py", "                s.release(grant)\n", "",
	}},
	{"Python keeps a grant that its caller did not take", "python", proctest.Plant{
		"sdk/python/src/lockd/_engine.py", `g.session.unlock(g, g.call("release", pb.Release))`, "pass",
	}},
}

func TestAWaitThatLeavesSomethingIsFound(t *testing.T) {
	for _, row := range forgets {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			plants := []proctest.Plant{row.plant}
			sources, err := proctest.Planted(plants)
			harness.Must(t, err)
			tier.Long(t)
			var command []string
			if row.language == "go" {
				bin, err := proctest.BuildPlanted(t.Context(), t.TempDir(), plants, "build", "./driver")
				harness.Must(t, err)
				command = []string{bin}
			} else {
				command = plantedPython(t, sources)
			}
			err = newCrowd(t, len(ways[row.language])-1, command).run()
			if err == nil || !strings.Contains(err.Error(), "something is left") {
				t.Errorf("it is not found: %v", err)
			}
		})
	}
}

// plantedPython runs the driver over a copy of the sources that has plants.
func plantedPython(t *testing.T, plants map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	harness.Must(t, os.CopyFS(dir, os.DirFS("../../sdk/python/src")))
	for file, text := range plants {
		_, file, _ = strings.Cut(file, "/sdk/python/src/")
		harness.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	return harness.PythonDriver(t, dir)
}
