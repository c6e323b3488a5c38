package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinksOfPagesLeadSomewhere follows the links between pages: the file is there, and has the heading.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	followed := 0
	eachFile(t, func(path string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		for _, m := range pageLink.FindAllStringSubmatch(proseOf(t, path), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			if why := broken(t, path, m[1]); why != "" {
				t.Errorf("%s: the link to %s: %s", path, m[1], why)
			}
		}
	})
	if followed < 200 {
		t.Errorf("only %d links were found", followed)
	}
}

// broken says what is wrong with a link of a page, or nothing.
func broken(t *testing.T, page, link string) string {
	t.Helper()
	file, anchor, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(target); err != nil {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	for _, h := range heading.FindAllStringSubmatch(proseOf(t, target), -1) {
		if slug(h[1]) == anchor {
			return ""
		}
	}
	return "there is no such heading"
}

// slug is the anchor of a heading, as GitHub makes it.
func slug(heading string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// proseOf is a page without its blocks of code.
func proseOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return codeBlock.ReplaceAllString(string(text), "")
}
