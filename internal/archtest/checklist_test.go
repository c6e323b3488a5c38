package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// [TestName][where], as the tables have it, or the name of a scenario.
	testLink = regexp.MustCompile(`\[(\w+)\]\[([\w-]+)\]`)
	// [where]: ../path/of_test.go, or a file of scenarios
	linkTarget = regexp.MustCompile(`(?m)^\[([\w-]+)\]: (\S+)$`)
	testFunc   = regexp.MustCompile(`(?m)^(?:func (Test\w+)\(|== (\w+)$)`)
)

// TestTheChecklistNamesTestsThatExist keeps docs/redisson-checklist.md true: each line of its tables names tests, and
// each of them is in the file that is linked.
func TestTheChecklistNamesTestsThatExist(t *testing.T) {
	docs := filepath.Join(root, "docs")
	text, err := os.ReadFile(filepath.Join(docs, "redisson-checklist.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]map[string]bool{} // by the name of the link
	for _, link := range linkTarget.FindAllStringSubmatch(string(text), -1) {
		has[link[1]] = testsIn(t, filepath.Join(docs, link[2]))
	}
	rows, used := 0, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| - ") || strings.HasSuffix(line, "| tests |\n") {
			continue
		}
		rows++
		links := testLink.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(links) == 0 {
			t.Errorf("a line needs three cells, and tests in the last one: %s", line)
		}
		for _, link := range links {
			used[link[2]] = true
			if !has[link[2]][link[1]] {
				t.Errorf("there is no %s in [%s]", link[1], link[2])
			}
		}
	}
	if rows < 50 {
		t.Errorf("only %d lines were found", rows)
	}
	for name := range has {
		if !used[name] {
			t.Errorf("[%s] is not used", name)
		}
	}
}

// testsIn returns the names of the tests, or scenarios, in a file.
func testsIn(t *testing.T, path string) map[string]bool {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	names := map[string]bool{}
	for _, f := range testFunc.FindAllStringSubmatch(string(source), -1) {
		names[f[1]+f[2]] = true
	}
	return names
}
