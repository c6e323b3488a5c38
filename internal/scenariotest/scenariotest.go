// Package scenariotest reads the scenarios of tests: files whose lines say what is done, and what is seen then.
package scenariotest

import (
	"io/fs"
	"strings"
	"testing"
)

// Play calls play with each scenario of the files *.txt, in a test of its own that has its title. A scenario begins
// with "== " and its title; what is before the first one is for readers. at is the line of the file at which its text
// begins.
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
