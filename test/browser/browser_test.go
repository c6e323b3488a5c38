package browser

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

func TestEachPageInABrowser(t *testing.T) {
	w := start(t)
	billing, report, deploy := w.client("billing-7f9c", 0), w.client("report-1", 1), w.client("deploy", 0)
	w.lock(billing, "invoice:2026-11", client.Annotation("monthly run"))
	w.login(opsToken)
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
	// The lock, and its release by force: it is in its history, in the audit, and its holder is told.
	w.waits(billing, "report:daily")
	w.click("tbody th a")
	w.shows("billing-7f9c")
	w.unfold()
	w.fill("why", "the report hangs")
	w.isLive()
	w.click("button.danger")
	w.shows("was released by force")
	w.shows("the report hangs")
	<-first.Context().Done()
	cause := context.Cause(first.Context())
	lost, ok := errors.AsType[*client.LostError](cause)
	if !ok || lost.Why != "the report hangs" || lost.By != "ops (console)" {
		t.Errorf("the holder is told %v", cause)
	}
	w.audited(`"event":"forced"`, `"client":"ops"`, "report:daily", "the report hangs")
	// The limit of a semaphore.
	w.open(w.url + "/lock?name=pool")
	w.unfold()
	w.fill("limit", "3")
	w.click("form:has(#limit) button")
	w.shows("The limit is set")
	if w.run("location.search") != "?name=pool" {
		t.Error("it would be said again by a page that is loaded again")
	}

	// Those who wait for each other.
	w.lock(deploy, "a")
	w.waits(deploy, "invoice:2026-11")
	w.waits(report, "a")
	w.open(w.url + "/blockers")
	w.await("a picture", "document.querySelectorAll('svg .node').length >= 3")
	w.shows("Whom most wait for")
	w.open(w.url + "/health")
	w.shows("2 of 2 answered")
	w.shows("checks found what should be")
	w.run("document.querySelector('summary').click()")
	w.shows("it serves")
	w.open(w.url + "/clients")
	w.shows("of 5000")
	w.shows("report:*")

	w.keyboard()
	w.narrow()
	w.endsASession()
	w.complainsOfNothing()
}

// endsASession ends that of a program.
func (w *world) endsASession() {
	w.t.Helper()
	w.look(1440, "light")
	w.open(w.url + "/sessions")
	w.shows("3 sessions")
	w.fill("client", "depl")
	w.click(".filter button")
	w.shows("1 session")
	w.click("tbody th a")
	w.shows("invoice:2026-11")
	id := w.run("document.querySelector('input[name=id]').value")
	w.unfold()
	w.fill("why", "it was forgotten")
	w.click("button.danger")
	w.shows("The session was ended")
	w.await("it is there no more", "document.body.innerText.includes('No replica that answered has this session')")
	w.audited(`"event":"session_ended"`, id, "it was forgotten")
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
}

// pages are all of them, with what is there in a busy world.
func (w *world) pages() map[string]string {
	w.t.Helper()
	w.open(w.url + "/sessions")
	w.await("a session", "document.querySelector('tbody th a') !== null")
	session := w.run("document.querySelector('tbody th a').getAttribute('href')")
	return map[string]string{
		"locks": "/", "lock": "/lock?name=invoice:2026-11", "sessions": "/sessions", "session": session,
		"blockers": "/blockers", "health": "/health", "clients": "/clients",
	}
}

// narrow sees that no page is wider than a phone, and that axe finds nothing wrong, in the light and in the dark.
func (w *world) narrow() {
	w.t.Helper()
	for name, path := range w.pages() {
		for _, scheme := range []string{"light", "dark"} {
			w.look(360, scheme)
			w.open(w.url + path)
			w.isLive()
			if got := w.run("document.documentElement.scrollWidth"); got != "360" {
				w.t.Errorf("%s is %s wide on a phone", name, got)
			}
			w.axe(name + ", " + scheme)
			w.look(1440, scheme)
			w.axe(name + ", wide, " + scheme)
		}
	}
}

// complainsOfNothing sees that nothing went wrong in any page, and that none asked anybody else.
func (w *world) complainsOfNothing() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		w.t.Errorf("the browser complains: %s", strings.Join(w.wrong, "\n"))
	}
	for asked := range w.asked {
		if !strings.HasPrefix(asked, w.url+"/") && asked != "about:blank" {
			w.t.Errorf("a page asks %s", asked)
		}
	}
}

func TestAPageGoesOnAtAnotherReplica(t *testing.T) {
	w := start(t)
	c := w.client("billing", 1)
	w.lock(c, "before")
	w.login(opsToken)
	w.shows("before")
	w.await("its replica is told", "document.getElementById('replica').textContent === 'lockd-a'")
	// It says that it is lost before it is somewhere else.
	w.run(`new MutationObserver(() => {
		window.lost ||= live.classList.contains('old') && state.textContent.includes('does not answer') &&
			document.getElementById('replica').textContent === 'lockd-a'
	}).observe(state, {childList: true})`)
	began := time.Now()
	w.replicas[0].Kill()
	w.await("it is at another one", "document.getElementById('replica').textContent === 'lockd-b'")
	w.isLive()
	t.Logf("it went on after %v", time.Since(began))
	if w.run("window.lost") != "true" {
		t.Error("it did not say that its replica was gone before it was somewhere else")
	}
	w.lock(c, "after")
	w.shows("after")
	if w.run("live.classList.contains('old')") != "false" {
		t.Error("it still looks old")
	}
	w.replicas[1].Kill()
	w.await("it says that there is none", "state.textContent.includes('does not answer')")
	if w.run("live.classList.contains('old')") != "true" {
		t.Error("what is old does not look so")
	}
}

func TestWhoMayDoLessSeesLess(t *testing.T) {
	w := start(t)
	c := w.client("billing", 0)
	w.lock(c, "report:daily")
	w.lock(c, "secret")
	w.login(guestToken)
	w.shows("report:daily")
	w.click("tbody th a")
	w.shows("neither the right force")
	if w.run("document.querySelectorAll('main form').length") != "0" {
		t.Error("there are forms for what he may not do")
	}
	w.open(w.url + "/lock?name=secret")
	w.shows("FORBIDDEN")
	w.open(w.url + "/clients")
	w.shows("is shown to who has the right examine")
	w.isLive()
	// His token is taken away: his page shows nothing more.
	w.clients("ops")
	w.await("he is told", "document.getElementById('state').textContent.includes('not logged in any more')")
	w.open(w.url + "/")
	w.shows("Token of a client")
	w.fill("token", guestToken)
	w.click("main form button")
	w.shows("TOKEN_INVALID")
	w.complainsOfNothing()
}

// Nobody who is not known has pages; what he has is as good to use.
func TestTheLoginAndWhatIsWrong(t *testing.T) {
	w := start(t)
	for _, scheme := range []string{"light", "dark"} {
		for path, text := range map[string]string{"/login": "Log in", "/nowhere": "There is no such page"} {
			w.look(360, scheme)
			w.open(w.url + path)
			w.shows(text)
			if got := w.run("document.documentElement.scrollWidth"); got != "360" {
				t.Errorf("%s is %s wide on a phone", path, got)
			}
			w.axe(path + ", " + scheme)
		}
	}
	w.complainsOfNothing()
}

func TestItIsReadWithoutAScript(t *testing.T) {
	w := start(t)
	w.lock(w.client("billing", 1), "invoice")
	w.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true}, nil)
	w.open(w.url + "/login")
	w.fill("token", opsToken)
	w.click("main form button")
	w.shows("invoice")
	w.shows("Without a script")
}

// Nothing that a client chose is more than a text, in any field.
func TestHostileTextsDoNothing(t *testing.T) {
	w := start(t)
	const hostile = `"><img src=x onerror="window.owned=1"><script>window.owned=1</script>'{{1}}` + "\u202e\u200b"
	c, err := client.Dial(w.replicas[0].Addr, client.WithName(hostile), client.WithTokenFile(w.token),
		client.WithLabels(map[string]string{hostile[:60]: hostile[:60]}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	l := w.lock(c, hostile, client.Annotation(hostile))
	w.waits(w.client(hostile, 1), hostile)
	w.login(opsToken)
	lock := "/lock?name=" + url.QueryEscape(hostile)
	w.open(w.url + lock)
	w.shows("Release by force")
	w.unfold()
	w.fill("why", hostile)
	w.click("button.danger")
	w.shows("was released by force")
	<-l.Context().Done()
	pages := w.pages()
	pages["lock"] = lock
	for name, path := range pages {
		w.open(w.url + path)
		w.isLive()
		got := w.run("String(window.owned) + document.querySelectorAll('main img, main script').length")
		if got != "undefined0" {
			t.Errorf("%s: a text of a client did something: %s", name, got)
		}
		if got = w.run("/[\\u202e\\u200b]/.test(document.body.innerText)"); got != "false" {
			t.Errorf("%s: what turns a text around is in the page", name)
		}
	}
	w.open(w.url + lock)
	w.shows(`\u202e`)
	w.complainsOfNothing()
}
