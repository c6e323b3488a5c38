package httpjson

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

// Each call can be made by plain HTTP, and a name may be any text.
func TestCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "jobs/a b%2F..//{ü}\"?&\\"
	query := "?name=" + url.QueryEscape(name)
	a := w.ask(http.StatusOK, "POST", "/v1/acquire", body("name", name, "lease", "60s", "annotation", "by hand"))
	id, _ := a.get("granted", "leaseId").(string)
	if a.get("granted", "name") != name || id == "" || a.get("granted", "fence") == "0" {
		t.Fatalf("granted is %s", a.text)
	}
	a = w.ask(http.StatusOK, "POST", "/v1/acquire", body("name", name, "lease", "60s"))
	if a.get("notGranted", "cause") != "CAUSE_HELD" {
		t.Errorf("a second one is told %s", a.text)
	}
	if a = w.ask(http.StatusOK, "GET", "/v1/lock"+query, ""); a.get("lock", "name") != name {
		t.Errorf("the lock is %s", a.text)
	}
	if a = w.ask(http.StatusOK, "GET", "/v1/inspect"+query, ""); !strings.Contains(a.text, "by hand") {
		t.Errorf("the holder is %s", a.text)
	}
	if a = w.ask(http.StatusOK, "GET", "/v1/locks?prefix=jobs/&pageSize=10", ""); len(a.get("locks").([]any)) != 1 {
		t.Errorf("the locks are %s", a.text)
	}
	a = w.ask(http.StatusOK, "POST", "/v1/extend", body("name", name, "leaseId", id, "lease", "90s"))
	if a.get("lease", "leaseId") != id {
		t.Errorf("extended is %s", a.text)
	}
	for _, path := range []string{
		"status", "sessions", "holds?min_age=1s", "waiters", "waiters" + query, "deadlocks", "events" + query, "busiest",
		"whoami", "can?verb=lock&name=a",
	} {
		w.ask(http.StatusOK, "GET", "/v1/"+path, "")
	}
	w.ask(http.StatusOK, "POST", "/v1/release", body("name", name, "lease_id", id)) // the proto's own names are known, too
	if a = w.ask(http.StatusOK, "POST", "/v1/set-limit", `{"name":"pool","limit":3}`); a.get("previous") != 0.0 {
		t.Errorf("the limit was %s", a.text)
	}
	if a = w.ask(http.StatusOK, "GET", "/openapi.json", ""); a.get("paths", "/v1/acquire", "post") == nil {
		t.Error("the description has no acquire")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.acquire("held")
	for _, row := range []struct {
		method, path, body string
		code               int
		reason             string
	}{
		{"POST", "/v1/acquire", `{"name":"a","leas":"60s"}`, 400, "INVALID_MESSAGE"},
		{"POST", "/v1/acquire", `{"name":`, 400, "INVALID_MESSAGE"},
		{"POST", "/v1/acquire", `{"name":"a\ud800","lease":"1s"}`, 400, "INVALID_MESSAGE"},
		{"POST", "/v1/acquire", "", 400, "INVALID_DURATION"},
		{"POST", "/v1/acquire", `{"name":"","lease":"60s"}`, 400, "INVALID_NAME"},
		{"POST", "/v1/acquire", `{"name":"a","lease":"9999999s"}`, 400, "INVALID_DURATION"},
		{"POST", "/v1/acquire", body("name", strings.Repeat("x", 1<<20)), 413, "FRAME_TOO_LARGE"},
		{"POST", "/v1/acquire", body("name", strings.Repeat("x", 30_000)), 429, "FRAME_TOO_LARGE"},
		{"POST", "/v1/release", body("name", "free", "leaseId", id), 400, "LOCK_NOT_HELD"},
		{"POST", "/v1/force-release", `{"name":"held"}`, 403, "ADMIN_ONLY"},
		{"GET", "/v1/lock?nam=a", "", 400, "INVALID_MESSAGE"},
		{"GET", "/v1/lock?name=a&name=b", "", 400, "INVALID_MESSAGE"},
		{"GET", "/v1/acquire", "", 405, "UNIMPLEMENTED"},
		{"GET", "/", "", 404, "UNIMPLEMENTED"},
		{"POST", "/lockd.v1.SessionService/Session", "", 501, "UNIMPLEMENTED"},
		{"GET", "/v1/terraform?name=a", "", 501, "UNIMPLEMENTED"},
	} {
		a := w.ask(row.code, row.method, row.path, row.body)
		if got := a.reason(); got != row.reason {
			t.Errorf("%s %s %.60s: %s, want %s", row.method, row.path, row.body, a.text, row.reason)
		}
	}
	// A page of another site has a browser ask.
	a := w.ask(http.StatusForbidden, "POST", "/v1/acquire", body("name", "a", "lease", "60s"),
		"Origin", "https://evil.example")
	if a.reason() != "FORBIDDEN" || w.ask(200, "GET", "/v1/lock?name=a", "").get("lock", "held") == true {
		t.Errorf("a page of another site is answered %s", a.text)
	}
}

func TestWhoIsRefusedForAWhileIsToldForHowLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LOCKD_LIMITS_WAITS_PER_ADDRESS=1")
	w.acquire("a")
	go func() {
		_, _ = w.try(t.Context(), "POST", "/v1/acquire", body("name", "a", "lease", "60s", "wait", "60s"))
	}()
	harness.Until(t, "one waits", func() bool { return w.waiters("a") == 1 })
	a := w.ask(http.StatusTooManyRequests, "POST", "/v1/acquire", body("name", "a", "lease", "60s", "wait", "60s"))
	if a.reason() != "QUOTA_WAITS_PER_ADDRESS" || a.header.Get("Retry-After") != "1" {
		t.Errorf("answered %s after %q s", a.text, a.header.Get("Retry-After"))
	}
}

// A client that goes while it waits leaves nothing behind.
func TestWhoGoesHoldsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.acquire("a")
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, "POST", "/v1/acquire", body("name", "a", "lease", "600s", "wait", "600s"))
		gone <- err
	}()
	harness.Until(t, "it waits", func() bool { return w.waiters("a") == 1 })
	leave()
	if err := <-gone; err == nil {
		t.Error("who left was answered")
	}
	harness.Until(t, "it waits no more", func() bool { return w.waiters("a") == 0 })
	w.ask(http.StatusOK, "POST", "/v1/release", body("name", "a", "leaseId", id))
	w.acquire("a")
}

// A wait may last longer than it may take to send a request.
func TestALongWaitIsNotCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.acquire("a")
	granted := make(chan answer, 1)
	go func() {
		a, _ := w.try(t.Context(), "POST", "/v1/acquire", body("name", "a", "lease", "60s", "wait", "100s"))
		granted <- a
	}()
	harness.Until(t, "it waits", func() bool { return w.waiters("a") == 1 })
	// Who began later, and does not send its body, is sent away in the meantime.
	said := saidOf(t, dial(t, "127.0.0.1", w.HTTP),
		"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
	if !strings.Contains(said, "408 ") {
		t.Errorf("said is %q", said)
	}
	w.ask(http.StatusOK, "POST", "/v1/release", body("name", "a", "leaseId", id))
	if a := <-granted; a.get("granted", "fence") == nil {
		t.Errorf("answered %d %s", a.code, a.text)
	}
}

// When lockd stops, who waits is told so.
func TestWhoWaitsIsToldOfTheStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LOCKD_SHUTDOWN_DRAIN_WINDOW=1s", "LOCKD_SHUTDOWN_TIMEOUT=60s")
	w.acquire("a")
	const many = 200
	told := make(chan answer, many)
	for range many {
		go func() {
			a, err := w.try(t.Context(), "POST", "/v1/acquire", body("name", "a", "lease", "60s", "wait", "600s"))
			if err != nil {
				a.text = err.Error()
			}
			told <- a
		}()
	}
	harness.Until(t, "all wait", func() bool { return w.get("/v1/lock?name=a", "lock", "waiters") == float64(many) })
	w.Signal(syscall.SIGTERM)
	for range many {
		a := <-told
		if a.code != http.StatusServiceUnavailable || a.reason() != "DRAINING" || a.header.Get("Retry-After") != "0" {
			t.Errorf("told %d %s", a.code, a.text)
		}
	}
	<-w.Exited
}
