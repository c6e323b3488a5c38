package browser

import (
	"testing"
	"time"
)

// shiftTime is how long a token is good: long enough to log in with it.
const shiftTime = 8 * time.Second

// A login ends with its token: a page that is open then shows nothing more, and asks to log in again. What its forms
// still send does nothing.
func TestAnOpenPageShowsNothingMoreWhenTheTokenExpires(t *testing.T) {
	w := start(t)
	l := w.lock(w.client("billing-7f9c", 0), "invoice")
	w.login(w.shift(shiftTime))
	w.open(w.url + "/lock?name=invoice")
	w.shows("billing-7f9c")
	w.shows("Release by force")
	form := w.run("document.querySelector('main input[name=form]').value")

	w.await("it says so", "document.getElementById('state').textContent.includes('not logged in any more')")
	w.shows("Log in again")
	if got := w.run("document.querySelectorAll('form, table, article, section').length"); got != "0" {
		t.Errorf("there are %s parts of the page yet", got)
	}
	if got := w.run("document.documentElement.outerHTML.includes('billing-7f9c')"); got != "false" {
		t.Error("it still shows who holds the lock")
	}
	got := w.run(`fetch('/lock/force', {method: 'POST', body: new URLSearchParams(
		{name: 'invoice', why: 'late', form: '` + form + `'})}).then(async (r) =>
		r.status + ' ' + (await r.text()).includes('Nothing was done'))`)
	if got != "401 true" {
		t.Errorf("a form of before gets %s", got)
	}
	w.click("#live a")
	w.shows("Your login is over")
	w.fill("token", w.shift(-2*time.Minute))
	w.click("main form button")
	w.shows("TOKEN_EXPIRED")
	if l.Context().Err() != nil {
		t.Error("the lock was released")
	}
	w.login(opsToken)
	w.shows("billing-7f9c")
	w.complainsOfNothing()
}

// A page that nobody saw when the token expired shows what it showed, until somebody looks or clicks.
func TestWhoClicksWhenTheTokenHasExpiredIsAskedToLogIn(t *testing.T) {
	w := start(t)
	w.lock(w.client("billing-7f9c", 0), "invoice")
	for what, act := range map[string]func(){
		"a click": func() { w.click("tbody th a") },
		"a look": func() {
			w.seen(true)
			w.await("it says so", "document.getElementById('state').textContent.includes('not logged in any more')")
			w.click("#live a")
		},
	} {
		w.login(w.shift(shiftTime))
		w.shows("billing-7f9c")
		w.seen(false)
		w.shows("Not live while it is not seen")
		w.await("the token has expired", "fetch('/live/').then((r) => { r.body.cancel(); return r.status === 401 })")
		act()
		w.shows("Your login is over")
		if got := w.run("document.documentElement.outerHTML.includes('billing-7f9c')"); got != "false" {
			t.Errorf("%s shows who holds the lock", what)
		}
	}
	w.complainsOfNothing()
}

// seen has the page be in front, or behind others.
func (w *world) seen(front bool) {
	w.t.Helper()
	hidden := "true"
	if front {
		hidden = "false"
	}
	w.run("Object.defineProperty(document, 'hidden', {configurable: true, get: () => " + hidden + "});" +
		"document.dispatchEvent(new Event('visibilitychange'))")
}
