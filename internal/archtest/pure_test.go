package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestArbiterReadsNoClock looks for what would make the core of arbitration depend on more than on what it is told: a
// clock, a goroutine, a channel, a mutex.
func TestArbiterReadsNoClock(t *testing.T) {
	looked := 0
	for _, f := range goFiles(t) {
		if filepath.Dir(f.path) != "internal/arbiter" || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		looked++
		ast.Inspect(f.code, func(n ast.Node) bool {
			if what := impure(n); what != "" {
				t.Errorf("%s: %s", position(n.Pos()), what)
			}
			return true
		})
	}
	if looked == 0 {
		t.Error("no files were found")
	}
}

// impure says what is impure in a node, "" if nothing is.
func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType:
		return "a channel"
	case *ast.ImportSpec:
		switch path := strings.Trim(n.Path.Value, `"`); path {
		case "context", "sync", "sync/atomic", "os", "net", "io", "math/rand/v2":
			return path
		}
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if !ok || pkg.Name != "time" {
			return ""
		}
		switch n.Sel.Name {
		case "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep":
			return "time." + n.Sel.Name
		}
	}
	return ""
}

func TestAnImpurityIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() { _ = time.Now() }", 0)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		found = found || impure(n) != ""
		return true
	})
	if !found {
		t.Error("a clock was not found")
	}
}
