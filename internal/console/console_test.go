package console_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/console"
)

func TestPagesShowWhatIsThere(t *testing.T) {
	w := start(t)
	holder, first, second := w.session("holder"), w.session("first"), w.session("second")
	holder.take("public:door")
	first.take("window")
	first.queue("public:door")
	second.queue("window")
	b := w.login("ops-token")
	for path, texts := range map[string][]string{
		"/":                {"public:door", "holder", "Longest wait", "2 locks"},
		"/?prefix=win":     {"window", "for window", "!public:door"},
		"/?prefix=nothing": {"No lock that is asked for", `what happened to <bdi>nothing`, "/lock?name=nothing"},
		"/?kind=read":      {"No lock that is asked for is held", "!what happened"},
		"/?holder=first": {
			"window", `Its session waits for</b> <a href="/lock?name=public%3Adoor"`, "!>for public:door",
			"only what sessions hold",
		},
		"/lock?name=public:door": {"for public:door", "Who waits", "first", "granted", "queued", "Release by force"},
		"/sessions":              {"3 sessions", "holder", "second"},
		"/sessions?client=fir":   {"1 session", "first", "!<bdi>second"},
		"/blockers":              {"<svg", "2 others behind it", "The longest chains", "!Only a part"},
		"/health": {
			"ready", "r1", "memory", "1 check found", "warning: RENEWALS", "more processors", "runbooks.md#lockdrenewalslate",
			"Longest wait in seconds", "runbooks.md#lockdwaiterstuck", "!LockdMemberDown",
		},
		"/clients":         {"worker", "force", "May lock", "idle", "jobs/*", "jobs/pay", "of 77"},
		"/session?id=none": {"No replica that answered has this session"},
		"/session":         {"No replica that answered has this session"},
	} {
		code, body := b.get(path)
		wants(t, path, code, http.StatusOK, body, texts...)
	}
	code, body := b.get("/?age=much")
	wants(t, "a wrong age", code, http.StatusBadRequest, body, "An age is a number")
	code, body = b.get("/nowhere")
	wants(t, "no page", code, http.StatusNotFound, body)
}

func TestNobodySeesMoreThanHisRightsLetHim(t *testing.T) {
	w := start(t)
	s := w.session("holder")
	s.take("public:door")
	s.take("secret:vault")
	guest := w.login("guest-token")
	code, body := guest.get("/")
	wants(t, "locks", code, http.StatusOK, body, "public:door", "!secret:vault")
	code, body = guest.get("/lock?name=secret:vault")
	wants(t, "a hidden lock", code, http.StatusForbidden, body, "FORBIDDEN", "!holder")
	code, body = guest.get("/sessions")
	wants(t, "sessions", code, http.StatusOK, body, "There is no session", "!holder")
	code, body = guest.get("/lock?name=public:door")
	wants(t, "acts", code, http.StatusOK, body, "neither the right force", "!danger")
	code, body = guest.get("/clients")
	wants(t, "the clients file", code, http.StatusOK, body, "!idle", "!jobs/", "has the right")
	code, body = guest.get("/health")
	wants(t, "the examination", code, http.StatusOK, body, "has no admin right &#34;examine&#34;")
	// What one client looked up is not another one's.
	code, body = w.login("ops-token").get("/")
	wants(t, "the locks of another one", code, http.StatusOK, body, "secret:vault")

	nobody := w.browser()
	code, body = nobody.get("/")
	wants(t, "nobody", code, http.StatusOK, body, "Log in", "!public:door") // he was sent to the form
	code, body = nobody.get("/live/")
	wants(t, "nobody's stream", code, http.StatusUnauthorized, body, "NO_CREDENTIALS")
	code, body = nobody.post("/lock/force", url.Values{"name": {"public:door"}, "why": {"x"}})
	wants(t, "nobody's act", code, http.StatusUnauthorized, body, "NO_CREDENTIALS")
	code, body = nobody.post("/login", url.Values{"token": {"wrong"}})
	wants(t, "a wrong token", code, http.StatusUnauthorized, body, "TOKEN_INVALID", "!Log out")
}

func TestAnOperatorActs(t *testing.T) {
	w := start(t)
	s := w.session("holder")
	s.take("public:door")
	ops := w.login("ops-token")
	code, body := ops.post("/lock/force", url.Values{"name": {"public:door"}})
	wants(t, "without a reason", code, http.StatusBadRequest, body, "A reason is needed")
	code, body = ops.get("/lock?name=public:door")
	wants(t, "before", code, http.StatusOK, body, "renewed", "for public:door")
	code, body = ops.post("/lock/force", url.Values{"name": {"public:door"}, "why": {"it hangs"}})
	wants(t, "force", code, http.StatusOK, body, "was released by force", "Nobody holds it", "!renewed", "it hangs")
	if lost := s.recv().GetLost(); lost.GetBy() != "ops (console)" || lost.GetWhy() != "it hangs" {
		t.Errorf("the holder is told %v", lost)
	}
	code, body = ops.post("/lock/limit", url.Values{"name": {"pool"}, "limit": {"3"}})
	wants(t, "a limit", code, http.StatusOK, body, "The limit is set")
	code, body = ops.post("/lock/limit", url.Values{"name": {"pool"}, "limit": {"0"}})
	wants(t, "no limit", code, http.StatusBadRequest, body)
	code, body = ops.post("/lock/limit", url.Values{"name": {"pool"}, "remove": {"1"}})
	wants(t, "to remove it", code, http.StatusOK, body, "The limit is removed")

	// Who may lock a name may set its limit by gRPC, but not here.
	worker := w.login("worker-token")
	s.take("public:door")
	for path, form := range map[string]url.Values{
		"/lock/force": {"name": {"public:door"}, "why": {"mine"}},
		"/lock/limit": {"name": {"pool"}, "limit": {"3"}},
	} {
		code, body := worker.post(path, form)
		wants(t, path, code, http.StatusForbidden, body, "no admin right")
	}
}

func TestAnOperatorEndsASession(t *testing.T) {
	w := start(t)
	s, other := w.session("holder"), w.session("other")
	s.take("public:door")
	other.queue("public:door")
	ops := w.login("ops-token")
	_, body := ops.get("/sessions?client=holder")
	id := regexp.MustCompile(`/session\?id=([^"]+)"`).FindStringSubmatch(body)[1]
	code, body := ops.get("/session?id=" + id)
	wants(t, "the session", code, http.StatusOK, body, "holder", "public:door", "Holds", "!Waits for", "End this session")
	form := func() url.Values { return url.Values{"id": {id}, "why": {"it is stuck"}} }
	code, body = w.login("worker-token").post("/session/end", form())
	wants(t, "without the right", code, http.StatusForbidden, body, "FORBIDDEN")
	code, body = w.login("worker-token").get("/session?id=" + id)
	wants(t, "without the right", code, http.StatusOK, body, "holder", "You may not end sessions", "!danger")
	code, body = ops.post("/session/end", url.Values{"id": {id}})
	wants(t, "without a reason", code, http.StatusBadRequest, body, "A reason is needed")
	code, body = ops.post("/session/end", form())
	wants(t, "to end it", code, http.StatusOK, body, "The session was ended")
	const told = "ops (console): it is stuck"
	if closing := s.recv().GetClosing(); !strings.Contains(closing.GetFailure().GetMessage(), told) {
		t.Errorf("its client is told %v", closing)
	}
	if m := other.recv(); m.GetGranted() == nil {
		t.Errorf("who waits is told %v, want a grant", m)
	}
	code, body = ops.post("/session/end", form())
	wants(t, "again", code, http.StatusOK, body, "There was no such session")
}

func TestOtherSitesCanDoNothing(t *testing.T) {
	w := start(t)
	w.session("holder").take("door")
	ops := w.login("ops-token")
	form := url.Values{"name": {"door"}, "why": {"because"}}
	for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		r := ops.request(http.MethodPost, "/lock/force", form)
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set(header, value)
		code, body, _ := ops.do(r)
		wants(t, header, code, http.StatusForbidden, body, "Another site")
	}
	for _, token := range []string{"", "x", formOf(t, w.login("worker-token"))} {
		form.Set("form", token)
		code, body := ops.post("/lock/force", form)
		wants(t, "the token "+token, code, http.StatusForbidden, body, "Load the page again")
	}
	code, body := ops.get("/lock/force?name=door&why=because")
	wants(t, "by GET", code, http.StatusNotFound, body)
	code, body = ops.get("/lock?name=door")
	wants(t, "the lock", code, http.StatusOK, body, "for door")
	_, _, h := ops.do(ops.request(http.MethodGet, "/", nil))
	policy := h.Get("Content-Security-Policy")
	wants(t, "the policy", http.StatusOK, http.StatusOK, policy, "default-src 'none'", "frame-ancestors 'none'", "!unsafe")
	if strings.Contains(body, "<script>") || strings.Contains(body, "style=") || strings.Contains(body, "onclick") {
		t.Errorf("a page has a script or a style in it: %s", body)
	}
}

// formOf is what the forms of somebody's pages have.
func formOf(t *testing.T, b *browser) string {
	t.Helper()
	_, page := b.get("/")
	found := formToken.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no form in %s", page)
	}
	return found[1]
}

func TestACookieSaysNothingAndEndsWithTheLogin(t *testing.T) {
	w := start(t)
	b := w.login("ops-token")
	at, err := url.Parse(w.site.URL)
	must(t, err)
	cookies := b.Jar.Cookies(at)
	if len(cookies) != 1 || strings.Contains(cookies[0].Value, "ops") || len(cookies[0].Value) < 26 {
		t.Fatalf("got %v", cookies)
	}
	plain := w.browser()
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, _, h := plain.do(plain.request(http.MethodPost, "/login", url.Values{"token": {"ops-token"}}))
	if c := h.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") {
		t.Errorf("got %q", c)
	}
	b.post("/logout", url.Values{})
	again := w.browser()
	again.Jar.SetCookies(at, cookies)
	code, body := again.get("/")
	wants(t, "after the logout", code, http.StatusOK, body, "Log in")
}

func TestHostileTextsAreTexts(t *testing.T) {
	w := start(t)
	const script, turned = `<script>alert(1)</script>"'`, "safe\u202egnp.exe"
	s := w.session(script + "\u200b")
	s.take(script)
	s.take(turned)
	s.take("name-" + strings.Repeat("x", 300))
	b := w.login("ops-token")
	lock := func(name string) string { return "/lock?" + url.Values{"name": {name}}.Encode() }
	for _, path := range []string{"/", "/sessions", lock(script), lock(turned)} {
		code, body := b.get(path)
		body = regexp.MustCompile(`<input type="hidden".*`).ReplaceAllString(body, "") // nobody sees them
		wants(t, path, code, http.StatusOK, body, "!<script>a", "!\u202e", "!\u200b", "&lt;script&gt;alert(1)")
	}
	_, body := b.get("/")
	wants(t, "a text that is turned", 0, 0, body, `safe\u202egnp.exe`, "name-"+strings.Repeat("x", 42)+"…",
		`title="name-`+strings.Repeat("x", 300)+`"`)
	code, body := b.get("/lock?name=%ff%fe")
	wants(t, "a name that is no text", code, http.StatusBadRequest, body)
}

func TestWithoutAClientsFileItOnlyShows(t *testing.T) {
	w := startWith(t, nil, console.Config{Replica: "r1", Loopback: true})
	w.session("holder").take("door")
	b := w.browser()
	code, body := b.get("/lock?name=door")
	wants(t, "the lock", code, http.StatusOK, body, "holder", "read-only", "only shows", "!<form")
	code, body = b.get("/health")
	wants(t, "health", code, http.StatusOK, body, "ready", "RENEWALS", "more processors")
	for path, form := range map[string]url.Values{
		"/lock/force": {"name": {"door"}, "why": {"x"}}, "/lock/limit": {"name": {"pool"}, "limit": {"3"}},
	} {
		code, body := b.post(path, form)
		wants(t, path, code, http.StatusForbidden, body, "only shows")
	}
	r := b.request(http.MethodGet, "/", nil)
	r.Host = "evil.example:80"
	code, body, _ = b.do(r)
	wants(t, "another name", code, http.StatusMisdirectedRequest, body, "console.hosts", "!door")
}

func TestAPathBehindAnIngress(t *testing.T) {
	w := startWith(t, nil, console.Config{Path: "/lockd", Hosts: []string{"Locks.example"}, Loopback: true})
	b := w.browser()
	for _, path := range []string{"/lockd/", "/lockd", "/"} { // some take the path away
		r := b.request(http.MethodGet, path, nil)
		r.Host = "locks.example"
		code, body, _ := b.do(r)
		wants(t, path, code, http.StatusOK, body, `href="/lockd/sessions"`,
			`src="/lockd/static/console.js"`, `data-live="/lockd/live/`)
	}
	code, body := b.get("/lockd/static/console.css")
	wants(t, "the style", code, http.StatusOK, body, "--accent")
}

// stream is an open page.
func (b *browser) stream(path string) (next func() (event, text string), end func()) {
	b.w.t.Helper()
	r := b.request(http.MethodGet, path, nil)
	c := http.Client{Jar: b.Jar, Transport: b.w.site.Client().Transport}
	resp, err := c.Do(r) //nolint:bodyclose // end does that
	must(b.w.t, err)
	if resp.StatusCode != http.StatusOK {
		b.w.t.Fatalf("%s: %s", path, resp.Status)
	}
	in := bufio.NewReader(resp.Body)
	return func() (event, text string) {
		for {
			line, err := in.ReadString('\n')
			switch line = strings.TrimSuffix(line, "\n"); {
			case err != nil:
				return "end", err.Error()
			case line == "" && event == "replica":
				event, text = "", ""
			case line == "" && event != "":
				return event, text
			case strings.HasPrefix(line, "event: "):
				event = line[len("event: "):]
			default:
				text += strings.TrimPrefix(line, "data: ") + "\n"
			}
		}
	}, func() { _ = resp.Body.Close() }
}

func TestAnOpenPageIsToldWhatChanged(t *testing.T) {
	w := start(t)
	s := w.session("holder")
	s.take("public:door")
	b := w.login("guest-token")
	next, end := b.stream("/live/?prefix=public")
	defer end()
	event, text := next()
	wants(t, event, 0, 0, text, "public:door", "!<html")
	if event, text = next(); event != "beat" { // ages are not news
		t.Errorf("got %s %s without a change", event, text)
	}
	s.take("public:window")
	for event, text = next(); event == "beat"; event, text = next() {
	}
	wants(t, event, 0, 0, text, "public:window")
	other, endOther := w.login("guest-token").stream("/live/sessions")
	defer endOther()
	b.post("/logout", url.Values{})
	for event, text = next(); event == "part" || event == "beat"; event, text = next() {
	}
	wants(t, event, 0, 0, text, "not logged in any more")
	w.console.Close()
	for event, text = other(); event == "part" || event == "beat"; event, text = other() {
	}
	wants(t, event, 0, 0, text, "stopping")
}

// counted counts the lists of locks that are asked for.
type counted struct {
	console.Calls
	lists, examines atomic.Int64
}

func (c *counted) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	switch in.(type) {
	case *lockdv1.ListHoldsRequest:
		c.lists.Add(1)
	case *lockdv1.ExamineRequest:
		c.examines.Add(1)
	}
	return c.Calls.Invoke(ctx, method, in, out, opts...)
}

func TestPagesOfOneClientShareALook(t *testing.T) {
	var c counted
	w := startChanged(t, nil, console.Config{}, func(in console.Calls) console.Calls { c.Calls = in; return &c })
	began := time.Now()
	const pages = 100
	var wg sync.WaitGroup
	for range pages {
		wg.Go(func() { w.browser().get("/") })
	}
	wg.Wait()
	if looks, most := c.lists.Load(), int64(time.Since(began)/time.Second)+1; looks > most {
		t.Errorf("%d pages took %d looks in %v, want at most %d", pages, looks, time.Since(began), most)
	}
}

func TestHealthDoesNotTryWhatItMayNot(t *testing.T) {
	var c counted
	w := startChanged(t, guardOf(t), console.Config{}, func(in console.Calls) console.Calls { c.Calls = in; return &c })
	code, body := w.login("guest-token").get("/health")
	wants(t, "no right", code, http.StatusOK, body, "has no admin right &#34;examine&#34;", "!RENEWALS")
	if n := c.examines.Load(); n != 0 {
		t.Errorf("who may not examine tried %d times, each of which is a line of the audit", n)
	}
	code, body = w.login("ops-token").get("/health")
	wants(t, "the right", code, http.StatusOK, body, "RENEWALS")
}

func TestOpenPagesAreBounded(t *testing.T) {
	w := startWith(t, nil, console.Config{})
	w.session("holder").take("door")
	b := w.browser()
	var codes []int
	for n := 0; len(codes) == 0 && n <= 1000; n++ {
		resp, err := (&http.Client{Transport: w.site.Client().Transport}).Do(b.request(http.MethodGet, "/live/", nil))
		must(t, err)
		if resp.StatusCode != http.StatusOK {
			codes = append(codes, resp.StatusCode, n)
		}
		defer func() { _ = resp.Body.Close() }()
	}
	if fmt.Sprint(codes) != "[503 600]" {
		t.Errorf("got %v, want 503 after 600 pages", codes)
	}
	code, body := b.get("/live/")
	wants(t, "one more", code, http.StatusServiceUnavailable, body, "you have 600 open pages")
	code, body = b.get("/")
	wants(t, "a page that is only looked at", code, http.StatusOK, body, "door")
}
