package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	serviceLine = regexp.MustCompile(`^service (\w+)Service \{`)
	rpcLine     = regexp.MustCompile(`^  rpc (\w+)\((stream )?`)
	oneofLine   = regexp.MustCompile(`^    (\w+) \w+ = \d+;`)
	inCode      = regexp.MustCompile("`(\\w+(?:[./]\\w+)?)`")
)

// TestThePageOfLimitsHasEveryRequestAndTestsThatExist keeps docs/limits.md true: each unary call, and each message that
// clients send in a session, has a line, and each test that is named there exists.
func TestThePageOfLimitsHasEveryRequestAndTestsThatExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	told, tests, used := map[string]bool{}, allTests(t), 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, name := range inCode.FindAllStringSubmatch(cells[0], -1) {
			told[name[1]] = true
		}
		if last := cells[len(cells)-1]; !strings.Contains(last, "`Test") && !isHeader(line) {
			t.Errorf("a line without a test: %s", line)
		}
		for _, name := range inCode.FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if used++; !tests[name[1]] {
				t.Errorf("there is no %s", name[1])
			}
		}
	}
	for _, request := range requests(t) {
		if !told[request] {
			t.Errorf("%s has no line", request)
		}
	}
	if used < 20 {
		t.Errorf("only %d tests were found", used)
	}
}

// isHeader says whether a line of a table is its first or second one.
func isHeader(line string) bool {
	return strings.HasPrefix(line, "| - ") || strings.HasSuffix(line, "| test |\n") ||
		strings.HasSuffix(line, "| tests |\n")
}

// requests are all that clients can ask for: unary calls with their services, and messages of a session.
func requests(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "api/proto/lockd/v1/*_service.proto"))
	if err != nil || len(files) < 4 {
		t.Fatalf("got %d files and %v", len(files), err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		service, inRequest := "", false
		for line := range strings.Lines(string(source)) {
			if m := serviceLine.FindStringSubmatch(line); m != nil {
				service = m[1]
			}
			if m := rpcLine.FindStringSubmatch(line); m != nil && m[2] == "" {
				names = append(names, service+"Service."+m[1])
			}
			if strings.HasPrefix(line, "message ") {
				inRequest = strings.HasPrefix(line, "message SessionRequest {")
			}
			if m := oneofLine.FindStringSubmatch(line); m != nil && inRequest {
				names = append(names, m[1])
			}
		}
	}
	if len(names) < 25 {
		t.Fatalf("only %d requests were found: %v", len(names), names)
	}
	return names
}

// allTests are the names of all tests in Go, and of the scenarios.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			for name := range testsIn(t, path) {
				names[name] = true
			}
		case strings.HasSuffix(path, ".txt") && filepath.Base(filepath.Dir(path)) == "testdata":
			for name := range testsIn(t, path) {
				names["TestScenarios/"+name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
