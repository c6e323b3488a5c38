package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// source is a file of ours.
type source struct {
	path string // from the root, with slashes
	text string
	code *ast.File // of Go
}

// is says whether a file has this extension.
func (f source) is(ext string) bool { return filepath.Ext(f.path) == ext }

// position is where a piece of code is.
func position(p token.Pos) token.Position { return positions.Position(p) }

var positions = token.NewFileSet()

// sources returns all files that are neither generated stubs nor build products.
//
// Every test calls it, also for its side effect: go test repeats a cached result unless a file changed that the test
// itself opened, and the go command that tests run does not count as the test.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := readSources()
	if err != nil || len(all) == 0 {
		t.Fatalf("read %d files below %s: %v", len(all), root, err)
	}
	return all
}

var readSources = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+"/"))
		if entry.IsDir() && isForeign(name) {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		f := source{path: name, text: string(text)}
		if err == nil && f.is(".go") {
			f.code, err = parser.ParseFile(positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
		}
		all = append(all, f)
		return err
	})
	return all, err
})

// isForeign tells the directories that hold no sources of ours: hidden ones, where caches are, and build products.
func isForeign(dir string) bool {
	switch name := filepath.Base(dir); {
	case dir == root:
		return false
	case dir == "api/gen", dir == "bin", name == "node_modules", name == "target":
		return true
	default:
		return strings.HasPrefix(name, ".")
	}
}

// goFiles returns those of Go that are not generated.
func goFiles(t *testing.T) (some []source) {
	t.Helper()
	for _, f := range sources(t) {
		if f.code != nil && !ast.IsGenerated(f.code) {
			some = append(some, f)
		}
	}
	return some
}

// textOf returns a file, of whatever kind.
func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rowsOf returns the cells of the tables of a page, without the titles.
func rowsOf(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	for line := range strings.Lines(textOf(t, page)) {
		switch {
		case strings.HasPrefix(line, "| - "):
			rows = rows[:len(rows)-1] // the titles stand above
		case strings.HasPrefix(line, "| "):
			rows = append(rows, strings.Split(strings.Trim(line, "| \n"), " | "))
		}
	}
	return rows
}

var testFunc = regexp.MustCompile(`(?m)^(?:func (Test\w+)\(|== (\w+)$)`)

// testsIn returns the names of the tests, or scenarios, in a text.
func testsIn(text string) map[string]bool {
	names := map[string]bool{}
	for _, f := range testFunc.FindAllStringSubmatch(text, -1) {
		names[f[1]+f[2]] = true
	}
	return names
}

// goPackage is what these tests ask the go command about a package.
type goPackage struct {
	ImportPath string
	Name       string
	Doc        string   // the first sentence of its comment
	Deps       []string // all that it reaches, without its tests
}

type goPackages []goPackage

func packages(t *testing.T) (all goPackages) {
	t.Helper()
	sources(t)
	// -e: a package that does not compile is for the compiler to report.
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Name,Doc,Deps", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg goPackage
		if err := in.Decode(&pkg); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("reading the output of go list: %v", err)
		}
		all = append(all, pkg)
	}
}

// reachedFrom returns all that the packages in a directory reach, themselves included.
func (all goPackages) reachedFrom(t *testing.T, dir string) (reached []string) {
	t.Helper()
	for _, pkg := range all {
		if isBelowAny(pkg.ImportPath, []string{module + "/" + dir}) {
			reached = append(append(reached, pkg.ImportPath), pkg.Deps...)
		}
	}
	if len(reached) == 0 {
		t.Fatalf("go list found no package in %s", dir)
	}
	return reached
}
