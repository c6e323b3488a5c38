package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
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

// elsewhere has names that look like ours and are not: those of the README, of Redisson, of Spring, of examples here.
var elsewhere = map[string]bool{
	"isLocked": true, "executeLocked": true, "TestName": true, "../path/of_test.go": true,
}

// TestCommentsNameWhatIsThere looks for files, methods and tests that a comment or a page speaks of and that are gone.
func TestCommentsNameWhatIsThere(t *testing.T) {
	known := knownNames(t)
	for _, f := range sources(t) {
		page := f.is(".md") && filepath.Base(f.path) != "CHANGELOG.md"
		var unknown []string
		switch {
		case f.code != nil:
			unknown = known.missingFromGo(f.code, filepath.Dir(f.path))
		case page, f.is(".lua"):
			unknown = known.missing(f.text, "")
		}
		for _, name := range unknown {
			t.Errorf("%s speaks of %s, which is not there", f.path, name)
		}
	}
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
			path = dir + "/" + path
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
	for _, f := range sources(t) {
		for end := f.path; end != ""; _, end, _ = strings.Cut(end, "/") {
			n.files[end] = true
		}
		if f.code == nil {
			continue
		}
		pkg := f.code.Name.Name
		if n.of[pkg] == nil {
			n.of[pkg] = map[string]bool{}
		}
		ast.Inspect(f.code, func(node ast.Node) bool {
			if id, ok := node.(*ast.Ident); ok {
				n.declared[id.Name], n.of[pkg][id.Name] = true, true
			}
			return true
		})
	}
	return n
}
