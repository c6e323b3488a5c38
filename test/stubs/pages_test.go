package stubs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pageProgram is the first program of a page in a language, as readers find it.
func pageProgram(t *testing.T, page, language string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(text), "```"+language+"\n")
	program, _, found := strings.Cut(program, "```")
	if !found {
		t.Fatalf("docs/%s has no program in %s", page, language)
	}
	return program
}

// save writes a program of a page to a file, as its readers do.
func save(t *testing.T, name, program string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
