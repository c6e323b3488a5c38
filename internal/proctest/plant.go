package proctest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/tier"
)

// Plant is a bug that a test puts into the source, to show that another test finds it. It is a file, from the root of
// the module, a text that the file has once, and the text to put in its place.
type Plant [3]string

// Planted are the sources with plants, by file. It fails if the place of a plant is gone.
func Planted(plants []Plant) (sources map[string]string, err error) {
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	sources = map[string]string{}
	for _, p := range plants {
		file, from, to := filepath.Join(root, p[0]), p[1], p[2]
		if sources[file] == "" {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			sources[file] = string(text)
		}
		if strings.Count(sources[file], from) != 1 {
			return nil, errors.New(p[0] + " does not have this once: " + from)
		}
		sources[file] = strings.Replace(sources[file], from, to, 1)
	}
	return sources, nil
}

// BuildPlanted builds a program with plants in its source, in dir: goCommand is "build" or "test -c" and a package.
func BuildPlanted(ctx context.Context, dir string, plants []Plant, goCommand ...string) (bin string, err error) {
	sources, err := Planted(plants)
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
	bin = filepath.Join(dir, "planted")
	last := len(goCommand) - 1
	args := append(goCommand[:last:last], "-overlay="+file, "-o", bin, goCommand[last])
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // a test chooses them
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return bin, nil
}

// Finds fails unless a test of the package that is tested finds plants. args are further arguments of the test program.
// In the first tier Finds only looks whether the plants have their places.
func Finds(t *testing.T, test string, plants []Plant, args ...string) {
	t.Helper()
	if _, err := Planted(plants); err != nil {
		t.Fatal(err)
	}
	tier.Long(t)
	dir := t.TempDir()
	bin, err := BuildPlanted(t.Context(), dir, plants, "test", "-c", ".")
	if err != nil {
		t.Fatal(err)
	}
	only := "-test.run=^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), bin, append(args, only)...) //nolint:gosec // a test chooses them
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+test) || strings.Contains(string(out), "panic:") {
		t.Errorf("%s did not find it: %v\n%s", test, err, out)
	}
}

// ModuleRoot is the directory of go.mod.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("there is no go.mod above")
		}
	}
	return "", err
}
