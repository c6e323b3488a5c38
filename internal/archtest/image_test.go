package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `docker build .` compiles in a copy of what .dockerignore lets through: all that the programs are made of must be
// there.
func TestTheImageIsBuiltFromAllThatItNeeds(t *testing.T) {
	readSources(t)
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	var copied []string
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			copied = append(copied, module+"/"+path)
		}
	}
	for _, program := range []string{"cmd/lockd", "cmd/lockctl"} {
		for _, dep := range dependencies(t, program) {
			if isBelowAny(dep, []string{module}) && !isBelowAny(dep, copied) {
				t.Errorf("%s is made of %s, which .dockerignore keeps out of the image's build", program, dep)
			}
		}
	}
}
