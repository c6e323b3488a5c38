package browser

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

var lockdBin string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.Settings{Before: func() (err error) {
		lockdBin, err = harness.Build("lockd")
		return err
	}}))
}

var pictures = flag.String("pictures", "", "write pictures of all pages into this `directory`")

// world is a lockd with locks, and a browser.
type world struct {
	t     testing.TB
	lockd *harness.Lockd
	url   string
	token string // a file with that of the operator
	*chrome
}

const token = "a-token-for-the-browser-0123456789abcdef"

func start(t *testing.T) *world {
	t.Helper()
	c := startChrome(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		harness.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	clients := file("clients.yaml", fmt.Sprintf("clients:\n- {name: ops, token_sha256: [%x], lock: ['*'], "+
		"admin: [force, limit, drain, examine], quota: {sessions: 100, locks: 5000}}\n", sha256.Sum256([]byte(token))))
	d := harness.StartLockdOn(t, lockdBin, "LOCKD_SECURITY_CLIENTS_FILE="+clients, "LOCKD_CONSOLE_LISTEN=127.0.0.1:0")
	url, _ := d.Logged("lockd serves")["console"].(string)
	if url == "" {
		t.Fatal("lockd does not say where its console is")
	}
	return &world{t: t, lockd: d, url: strings.TrimSuffix(url, "/"), token: file("token", token), chrome: c}
}

// client is a program that uses lockd.
func (w *world) client(name string) *client.Client {
	w.t.Helper()
	c, err := client.Dial(w.lockd.Addr, client.WithName(name), client.WithTokenFile(w.token))
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) lock(c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	w.t.Helper()
	l, err := c.Lock(w.t.Context(), name, opts...)
	harness.Must(w.t, err)
	return l
}

// waits has a program wait for a lock, for as long as the test goes on.
func (w *world) waits(c *client.Client, name string) {
	go func() { _, _ = c.Lock(w.t.Context(), name) }()
}

// login gives the token in the form.
func (w *world) login() {
	w.t.Helper()
	w.open(w.url + "/")
	w.shows("Log in") // it was sent there
	w.fill("token", token)
	w.click("main form button")
	w.shows("Log out")
	w.await("the page is live", "document.getElementById('state').textContent === 'Live'")
}

func TestEachPageInABrowser(t *testing.T) {
	w := start(t)
	billing, report, deploy := w.client("billing-7f9c"), w.client("report-1"), w.client("deploy")
	w.lock(billing, "invoice:2026-11", client.Annotation("monthly run"))
	w.login()
	w.shows("invoice:2026-11")

	// What changes comes by itself, and times run.
	w.run("window.old = 1")
	first := w.lock(report, "report:daily")
	w.shows("report:daily")
	w.shows("2 s")
	if w.run("window.old") != "1" {
		t.Error("the page was loaded again")
	}
	// A search.
	w.fill("prefix", "report:")
	w.click(".filter button")
	w.shows("report:daily")
	if w.run("document.body.innerText.includes('invoice:')") != "false" {
		t.Error("the search finds too much")
	}
	// The lock, and its release by force.
	w.waits(billing, "report:daily")
	w.click("tbody th a")
	w.shows("billing-7f9c")
	w.fill("why", "the report hangs")
	w.shows("Live")
	w.click("button.danger")
	w.shows("was released by force")
	w.shows("the report hangs")
	<-first.Context().Done()
	// The limit of a semaphore.
	w.open(w.url + "/lock?name=pool")
	w.fill("limit", "3")
	w.click("form:has(#limit) button")
	w.shows("The limit is set")

	// Those who wait for each other.
	w.lock(deploy, "a")
	w.waits(deploy, "invoice:2026-11")
	w.waits(report, "a")
	w.open(w.url + "/blockers")
	w.await("a picture", "document.querySelectorAll('svg .node').length >= 3")
	w.shows("Whom most wait for")
	w.open(w.url + "/sessions")
	w.shows("3 sessions")
	w.fill("client", "depl")
	w.click(".filter button")
	w.shows("1 session")
	w.open(w.url + "/clients")
	w.shows("force")
	w.open(w.url + "/health")
	w.shows("checks found what should be")
	w.run("document.querySelector('summary').click()")
	w.shows("it serves")

	w.keyboard()
	w.narrow()
	w.ends()
}

// keyboard sees that the first key leads past the head of the page, and that what has the focus shows it.
func (w *world) keyboard() {
	w.t.Helper()
	w.open(w.url + "/")
	w.run("document.activeElement.blur()")
	for _, kind := range []string{"keyDown", "keyUp"} {
		w.call("Input.dispatchKeyEvent",
			map[string]any{"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}, nil)
	}
	focus := "document.activeElement.className + getComputedStyle(document.activeElement).outlineStyle"
	if got := w.run(focus); got != "skipsolid" {
		w.t.Errorf("the first Tab leads to %q", got)
	}
	for _, script := range []string{
		"[...document.querySelectorAll('input:not([type=hidden]), select')].every((e) => e.labels.length)",
		"['main', 'nav[aria-label]', 'h1'].every((s) => document.querySelector(s))",
		"[...document.querySelectorAll('thead th')].every((e) => e.scope === 'col')",
	} {
		if w.run(script) != "true" {
			w.t.Errorf("not so: %s", script)
		}
	}
}

var paths = map[string]string{
	"locks": "/", "lock": "/lock?name=invoice:2026-11", "sessions": "/sessions", "blockers": "/blockers",
	"health": "/health", "clients": "/clients",
}

// narrow sees that no page is wider than a phone.
func (w *world) narrow() {
	w.t.Helper()
	for name, path := range paths {
		w.look(360, "light")
		w.open(w.url + path)
		if got := w.run("document.documentElement.scrollWidth"); got != "360" {
			w.t.Errorf("%s is %s wide on a phone", name, got)
		}
	}
}

// ends sees that a page says when its replica is gone, and that nothing went wrong in any page.
func (w *world) ends() {
	w.t.Helper()
	w.open(w.url + "/")
	w.await("the page is live", "document.getElementById('state').textContent === 'Live'")
	began := time.Now()
	w.lockd.Kill()
	w.await("it says so", "document.getElementById('state').textContent.includes('does not answer')")
	w.t.Logf("the page said after %v that its replica is gone", time.Since(began))
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.t.Errorf("the browser complains: %s", strings.Join(w.wrong, "\n"))
	}
	for url := range w.asked {
		if !strings.HasPrefix(url, w.url+"/") && url != "about:blank" {
			w.t.Errorf("a page asks %s", url)
		}
	}
}

func TestItIsReadWithoutAScript(t *testing.T) {
	w := start(t)
	w.lock(w.client("billing"), "invoice")
	w.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	w.open(w.url + "/login")
	w.fill("token", token)
	w.click("main form button")
	w.shows("invoice")
	w.shows("Without a script")
}

func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures writes pictures")
	}
	w := start(t)
	harness.Must(t, os.MkdirAll(*pictures, 0o755))
	w.busy()
	w.login()
	for name, path := range paths {
		for _, width := range []int{1440, 360} {
			for _, scheme := range []string{"light", "dark"} {
				w.look(width, scheme)
				w.open(w.url + path)
				if name == "health" {
					w.shows("checks found")
				}
				w.await("the page is live", "document.getElementById('state').textContent === 'Live'")
				w.picture(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)))
			}
		}
	}
}

// busy has locks of all kinds, and those who wait for them.
func (w *world) busy() {
	w.t.Helper()
	programs := make([]*client.Client, 8)
	for i, name := range []string{
		"billing-7f9c", "billing-2b1d", "report-1", "deploy <b>prod</b>",
		"etl-nightly-with-a-rather-long-name-of-a-pod-6d5f8", "web-1", "web-2", "evil\u202egnp",
	} {
		programs[i] = w.client(name)
	}
	for i := range 14 {
		w.lock(programs[i%3], fmt.Sprintf("invoice:2026-%02d", i), client.Annotation("monthly run of tenant 17"))
	}
	w.lock(programs[4], "etl:"+strings.Repeat("warehouse-", 12)+"load")
	w.lock(programs[3], "deploy:prod")
	w.lock(programs[7], "safe\u202egnp.exe")
	for _, wait := range []struct {
		program int
		name    string
	}{
		{1, "invoice:2026-00"}, {2, "invoice:2026-00"}, {4, "invoice:2026-00"}, {5, "invoice:2026-00"},
		{3, "invoice:2026-01"}, {5, "deploy:prod"}, {6, "deploy:prod"}, {0, "safe\u202egnp.exe"},
	} {
		w.waits(programs[wait.program], wait.name)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for { // all of them wait
		code, body := w.lockd.Get("/metrics")
		if code == 200 && strings.Contains(body, "lockd_waiters 8") || ctx.Err() != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
