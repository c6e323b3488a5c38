package stubs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pages are the pages with a program in Python, and what the program prints at last.
var pages = map[string]string{"protocol.md": "answered: released\n", "stubs.md": "released\n"}

// runsThePages runs the programs as readers find them. Only the address is another one.
func runsThePages(t *testing.T, python, installed, addr string) {
	t.Helper()
	for page, want := range pages {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		_, program, _ := strings.Cut(string(text), "```python\n")
		program, _, _ = strings.Cut(program, "```")
		ctx, cancel := context.WithTimeout(t.Context(), runTime)
		defer cancel()
		cmd := exec.CommandContext(ctx, python, "-c", strings.ReplaceAll(program, "localhost:7420", addr))
		cmd.Env = append(os.Environ(), "PYTHONPATH="+installed, "PYTHONDONTWRITEBYTECODE=1", "LOCKD_ADDR="+addr)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), want) {
			t.Errorf("the program of docs/%s printed %q, %v; want %q at the end", page, out, err, want)
		}
	}
}
