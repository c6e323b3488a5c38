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
	for _, f := range sources(t) {
		if !f.is(".md") {
			continue
		}
		for _, m := range pageLink.FindAllStringSubmatch(prose(f.text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			if why := broken(t, f.path, m[1]); why != "" {
				t.Errorf("%s: the link to %s: %s", f.path, m[1], why)
			}
		}
	}
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
	if _, err := os.Stat(filepath.Join(root, target)); err != nil {
		return "there is no such file"
	}
	if anchor == "" {
		return ""
	}
	for _, h := range heading.FindAllStringSubmatch(prose(textOf(t, target)), -1) {
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

// prose is a page without its blocks of code.
func prose(text string) string { return codeBlock.ReplaceAllString(text, "") }
