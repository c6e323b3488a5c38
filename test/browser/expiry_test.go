package browser

import (
	"testing"
	"time"
)

// leastShift is how long a token is good at least.
const leastShift = 6 * time.Second

// inTime opens a page of somebody whose token expires, and has something done there before that, which says whether it
// was. A machine may be so busy that the token expires first: then one that lasts longer is tried. It returns how long
// the last one does.
func (w *world) inTime(path string, done func() bool) time.Duration {
	w.t.Helper()
	for lasts := leastShift; lasts <= 16*leastShift; lasts *= 2 {
		w.open(w.url + "/login")
		w.fill("token", w.shift(lasts))
		w.click("main form button")
		w.open(w.url + path)
		w.await("a page", "document.getElementById('token') !== null ||"+
			"/billing-7f9c|Log in again/.test(document.body.innerText)")
		if done() {
			return lasts
		}
	}
	w.t.Fatal("each token expired before it was used")
	return 0
}

// saysOver is whether an open page says that its login is over.
const saysOver = "document.getElementById('state').textContent.includes('not logged in any more')"

// A login ends with its token: a page that is open then shows nothing more, and asks to log in again. What its forms
// still send does nothing.
func TestAnOpenPageShowsNothingMoreWhenTheTokenExpires(t *testing.T) {
	w := start(t)
	l := w.lock(w.client("billing-7f9c", 0), "invoice")
	var form string
	lasts := w.inTime("/lock?name=invoice", func() bool {
		form = w.run(`document.body.innerText.includes('Release by force') &&
			document.querySelector('main input[name=form]').value`)
		return form != "false"
	})

	w.awaitFor(lasts+patience, "it says so", saysOver)
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
			w.await("it says so", saysOver)
			w.click("#live a")
		},
	} {
		lasts := w.inTime("/", func() bool {
			w.seen(false) // nothing changes any more
			return w.run("document.body.innerText.includes('billing-7f9c')") == "true"
		})
		w.shows("Not live while it is not seen")
		w.awaitFor(lasts+patience, "the token has expired",
			"fetch('/live/').then((r) => { r.body.cancel(); return r.status === 401 })")
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
