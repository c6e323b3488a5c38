package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/console"
)

// oddNames are names of locks that look like paths, queries or other sites.
var oddNames = []string{
	"/lock", "a//b", "..", ".", "../..", "a/../b", "//evil.example", "%2f", "a%2Fb", "/", "\\", "?name=b&x=1", "#top",
	"a+b c", "https://evil.example/", "javascript:alert(1)", "a;b=c", `"><b>`, "{{.}}", "ä\u202e",
}

// leads are all places where a page leads to.
var leads = regexp.MustCompile(`(?:href|action|src|data-live|data-login)="([^"]*)"`)

// Each lock is reached by the links of the pages, whatever its name, and no link or redirect leaves the path that the
// console has behind an ingress.
func TestEachNameIsReachedBelowThePath(t *testing.T) {
	w := startWith(t, guardOf(t), console.Config{Path: "/lockd", Replica: "r1"})
	holder, waiter := w.session("holder"), w.session("waiter")
	for _, name := range oddNames {
		holder.take(name)
		waiter.queue(name)
	}
	b := w.browser()
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.Path, "/lockd/") || r.URL.Host != strings.TrimPrefix(w.site.URL, "http://") {
			t.Errorf("a redirect leads to %s", r.URL)
		}
		return nil
	}
	code, body := b.get("/lockd/")
	wants(t, "without a login", code, http.StatusOK, body, `action="/lockd/login"`)
	code, body = b.post("/lockd/login", url.Values{"token": {"ops-token"}})
	wants(t, "the login", code, http.StatusOK, body, "Log out")

	reached := map[string]bool{}
	seen, next := map[string]bool{}, []string{"/lockd/", "/lockd/blockers", "/lockd/nowhere", "/lockd/login"}
	for len(next) > 0 {
		path := next[0]
		if next = next[1:]; seen[path] {
			continue
		}
		seen[path] = true
		code, body := b.get(path)
		if code != http.StatusOK && path != "/lockd/nowhere" {
			t.Errorf("%s: %d", path, code)
		}
		for _, lead := range leads.FindAllStringSubmatch(body, -1) {
			to := html.UnescapeString(lead[1])
			switch {
			case strings.HasPrefix(to, "#"), strings.HasPrefix(to, "https://github.com/lockd-io/"):
			case !strings.HasPrefix(to, "/lockd/"):
				t.Errorf("%s leads to %q", path, to)
			case strings.HasPrefix(lead[0], "href") && !strings.HasPrefix(to, "/lockd/static/"):
				next = append(next, to)
			}
		}
		if at, err := url.Parse(path); err == nil && at.Path == "/lockd/lock" {
			name := at.Query().Get("name")
			reached[name] = strings.Contains(body, "Release by force") && strings.Contains(body, "Who waits</h2>")
		}
	}
	for _, name := range oddNames {
		if !reached[name] {
			t.Errorf("no link leads to the lock %q", name)
		}
		_, page := b.get("/lockd/lock?" + url.Values{"name": {name}}.Encode())
		form := url.Values{"why": {"because"}}
		for _, field := range regexp.MustCompile(`<input type="hidden" name="(name|form)" value="([^"]*)"`).
			FindAllStringSubmatch(page, -1) {
			form.Set(field[1], html.UnescapeString(field[2]))
		}
		code, body := b.post("/lockd/lock/force", form)
		wants(t, fmt.Sprintf("to release %q", name), code, http.StatusOK, body, "was released by force")
	}
}

// A path that is not one of ours leads nowhere: neither to a page without the path of the ingress, nor elsewhere.
func TestOtherPathsLeadNowhere(t *testing.T) {
	w := startWith(t, nil, console.Config{Path: "/lockd", Replica: "r1"})
	b := w.browser()
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		t.Errorf("a redirect leads to %s", r.URL)
		return http.ErrUseLastResponse
	}
	for _, path := range []string{
		"/lockd//", "/lockd//sessions", "/lockd/./sessions", "/lockd/x/../sessions", "/lockd//evil.example/",
		"//evil.example", "/lockd/sessions/", "/lockd/%2e%2e/sessions", "/lockd/live", "/lockd/static", "/lockd/static/",
		"/static/",
		"/lockd/static/../console.css", "/lockd/static/console.go", "/lockd/lock/", "/lockd/lock/a%2fb",
		"/lockdown", "/lockd/lockd/",
	} {
		code, body := b.get(path)
		wants(t, path, code, http.StatusNotFound, body, "no such page", "!console.css<", "!icon.svg<")
	}
	for path, kind := range map[string]string{
		"/lockd/static/console.css": "text/css", "/lockd/static/console.js": "text/javascript",
		"/static/icon.svg": "image/svg+xml",
	} {
		code, body, h := b.do(b.request(http.MethodGet, path, nil))
		wants(t, path, code, http.StatusOK, body, "!no such page")
		if got := h.Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Errorf("%s is %q", path, got)
		}
	}
	if code, body, _ := b.do(b.request(http.MethodHead, "/lockd/", nil)); code != http.StatusOK || body != "" {
		t.Errorf("HEAD: %d %q", code, body)
	}
}

// An ingress may take the path away. Then it must not be that of a page.
func TestThePathIsNotThatOfAPage(t *testing.T) {
	for _, path := range []string{"/lock", "/live", "/session", "/static", "/health", "/login", "/lock/force"} {
		if c, err := console.New(console.Config{Path: path}, nil, zap.NewNop()); err == nil {
			c.Close()
			t.Errorf("%s is taken", path)
		}
	}
	for _, path := range []string{"", "/lockd", "/locks", "/a/lock"} {
		c, err := console.New(console.Config{Path: path}, nil, zap.NewNop())
		must(t, err)
		c.Close()
	}
}
