package archtest

import (
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

	serviceLine = regexp.MustCompile(`^service (\w+)Service \{`)
	rpcLine     = regexp.MustCompile(`^  rpc (\w+)\((stream )?`)
	oneofLine   = regexp.MustCompile(`^    (\w+) \w+ = \d+;`)
	inCode      = regexp.MustCompile("`(\\w+(?:[./]\\w+)?)`")
)

// TestTheChecklistNamesTestsThatExist keeps docs/redisson-checklist.md true: each line of its tables names tests, and
// each of them is in the file that is linked.
func TestTheChecklistNamesTestsThatExist(t *testing.T) {
	const page = "docs/redisson-checklist.md"
	has := map[string]map[string]bool{} // by the name of the link
	for _, link := range linkTarget.FindAllStringSubmatch(textOf(t, page), -1) {
		has[link[1]] = testsIn(textOf(t, filepath.Join("docs", link[2])))
	}
	rows, used := rowsOf(t, page), map[string]bool{}
	for _, cells := range rows {
		links := testLink.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(links) == 0 {
			t.Errorf("a line needs three cells, and tests in the last one: %q", cells)
		}
		for _, link := range links {
			used[link[2]] = true
			if !has[link[2]][link[1]] {
				t.Errorf("there is no %s in [%s]", link[1], link[2])
			}
		}
	}
	if len(rows) < 50 {
		t.Errorf("only %d lines were found", len(rows))
	}
	for name := range has {
		if !used[name] {
			t.Errorf("[%s] is not used", name)
		}
	}
}

// TestThePageOfLimitsHasEveryRequestAndTestsThatExist keeps docs/limits.md true: each unary call, and each message that
// clients send in a session, has a line, and each test that is named there exists.
func TestThePageOfLimitsHasEveryRequestAndTestsThatExist(t *testing.T) {
	told, tests, used := map[string]bool{}, allTests(t), 0
	for _, cells := range rowsOf(t, "docs/limits.md") {
		for _, name := range inCode.FindAllStringSubmatch(cells[0], -1) {
			told[name[1]] = true
		}
		last := cells[len(cells)-1]
		if !strings.Contains(last, "`Test") {
			t.Errorf("a line without a test: %q", cells)
		}
		for _, name := range inCode.FindAllStringSubmatch(last, -1) {
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

// allTests are the names of all tests in Go, and of the scenarios.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range sources(t) {
		prefix := ""
		switch {
		case f.is(".txt") && filepath.Base(filepath.Dir(f.path)) == "testdata":
			prefix = "TestScenarios/"
		case !strings.HasSuffix(f.path, "_test.go"):
			continue
		}
		for name := range testsIn(f.text) {
			names[prefix+name] = true
		}
	}
	return names
}

// requests are all that clients can ask for: unary calls with their services, and messages of a session.
func requests(t *testing.T) (names []string) {
	t.Helper()
	for _, f := range sources(t) {
		if !strings.HasPrefix(f.path, "api/proto/lockd/v1/") || !strings.HasSuffix(f.path, "_service.proto") {
			continue
		}
		service, inRequest := "", false
		for line := range strings.Lines(f.text) {
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
