// Package scenariotest reads the scenarios of tests: files in which what is done and what is seen then stand in lines.
package scenariotest

import (
	"io/fs"
	"strings"
	"testing"
)

// Play has each scenario of the files *.txt played by a test of its own, which bears its title. A scenario begins with
// "== " and its title; what is before the first one is for readers. at is where in the file its text begins.
func Play(t *testing.T, files fs.FS, play func(t *testing.T, file string, at int, text string)) {
	t.Helper()
	names, err := fs.Glob(files, "*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		at := 1
		for i, part := range strings.Split(string(text), "\n== ") {
			title, text, _ := strings.Cut(part, "\n")
			if i > 0 {
				t.Run(title, func(t *testing.T) { play(t, name, at+1, text) })
			}
			at += strings.Count(part, "\n") + 1
		}
	}
}
