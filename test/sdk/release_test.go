package sdk

import (
	"os"
	"os/exec"
	"testing"

	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// TestTheJavaReleaseIsTheSameTwice makes the jars that are published of this commit, twice, and builds an example with
// them as with a repository.
func TestTheJavaReleaseIsTheSameTwice(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "scripts/release", "--check-java")
	cmd.Dir, cmd.Env = root, os.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
	}
	harness.Must(t, err)
}
