package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// names are what a comment or a page may speak of.
type names struct {
	files    map[string]bool            // each path, and what is left of it without its first directories
	declared map[string]bool            // identifiers in Go code
	of       map[string]map[string]bool // identifiers, by package of ours
}

var (
	fileName   = regexp.MustCompile(`[\w./-]*\w\.(?:go|lua|proto)\b`)
	lockedName = regexp.MustCompile(`\b[a-z]\w*Locked\b`)
	testName   = regexp.MustCompile(`\b(?:Test|Benchmark|Fuzz)[A-Z]\w+`)
	memberName = regexp.MustCompile(`(?:^|[^\w./-])([a-z]\w+)\.([A-Z]\w+)`)
	ownName    = regexp.MustCompile(`^([a-z]+[A-Z]\w*) `) // that a function's comment begins with
)

// elsewhere has names that look like ours and are not: those of the README, of Redisson, of examples here.
var elsewhere = map[string]bool{"bin/hello.go": true, "isLocked": true, "TestName": true, "../path/of_test.go": true}

// TestCommentsNameWhatIsThere looks for files, methods and tests that a comment or a page speaks of and that are gone.
// The pages of decisions are as old as their date.
func TestCommentsNameWhatIsThere(t *testing.T) {
	readSources(t)
	known := knownNames(t)
	eachFile(t, func(path string) {
		page := filepath.Ext(path) == ".md" && !strings.Contains(path, "/decisions/") && filepath.Base(path) != "CHANGELOG.md"
		var unknown []string
		switch {
		case filepath.Ext(path) == ".go":
			unknown = known.missingFromGo(parsed(t, path), filepath.Dir(path))
		case page, filepath.Ext(path) == ".lua":
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			unknown = known.missing(string(text), "")
		}
		for _, name := range unknown {
			t.Errorf("%s speaks of %s, which is not there", path, name)
		}
	})
}

func TestAMissingNameIsFound(t *testing.T) {
	known := names{
		files:    map[string]bool{"a/here.go": true, "here.go": true},
		declared: map[string]bool{"doLocked": true},
		of:       map[string]map[string]bool{"pkg": {}},
	}
	for _, text := range []string{"see gone.go", "see b/here.go", "calls goneLocked", "as TestGone", "calls pkg.Gone"} {
		if len(known.missing(text, "")) != 1 {
			t.Errorf("nothing is missing of %q", text)
		}
	}
	if got := known.missing("here.go, a/here.go, doLocked, b.Other", ""); got != nil {
		t.Errorf("missing are %q", got)
	}
	source := "package p\n\n// oldName does it.\nfunc newName() {}"
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments)
	if err != nil || len(known.missingFromGo(file, "")) != 1 {
		t.Errorf("a comment with the name of another function was not found: %v", err)
	}
}

// missingFromGo are the names in the comments of a Go file that are not there.
func (n names) missingFromGo(file *ast.File, dir string) (missing []string) {
	for _, group := range file.Comments {
		missing = append(missing, n.missing(group.Text(), dir)...)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			if m := ownName.FindStringSubmatch(f.Doc.Text()); m != nil && m[1] != f.Name.Name {
				missing = append(missing, m[1]+" at "+f.Name.Name)
			}
		}
	}
	return missing
}

// missing are the names in a text that are not there. A file without a directory is looked for in dir, if there is one.
func (n names) missing(text, dir string) (missing []string) {
	want := func(name string, there bool) {
		if !there && !elsewhere[name] {
			missing = append(missing, name)
		}
	}
	for _, file := range fileName.FindAllString(text, -1) {
		path := strings.TrimLeft(file, "./")
		if dir != "" && !strings.Contains(path, "/") {
			path = strings.TrimPrefix(dir+"/"+path, root+"/")
		}
		want(file, n.files[path])
	}
	for _, name := range append(lockedName.FindAllString(text, -1), testName.FindAllString(text, -1)...) {
		want(name, n.declared[name])
	}
	for _, m := range memberName.FindAllStringSubmatch(text, -1) {
		if of, ours := n.of[m[1]]; ours {
			want(m[1]+"."+m[2], of[m[2]])
		}
	}
	return missing
}

func knownNames(t *testing.T) names {
	t.Helper()
	n := names{map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}}
	eachFile(t, func(path string) {
		for end := strings.TrimPrefix(path, root+"/"); end != ""; _, end, _ = strings.Cut(end, "/") {
			n.files[end] = true
		}
		if filepath.Ext(path) != ".go" {
			return
		}
		file := parsed(t, path)
		pkg := file.Name.Name
		if n.of[pkg] == nil {
			n.of[pkg] = map[string]bool{}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok {
				n.declared[id.Name], n.of[pkg][id.Name] = true, true
			}
			return true
		})
	})
	return n
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// eachFile calls f for all files that are neither generated stubs nor build products.
func eachFile(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (isForeign(path, entry.Name()) || path == root+"/api/gen" || path == root+"/bin"):
			return filepath.SkipDir
		case !entry.IsDir():
			f(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
