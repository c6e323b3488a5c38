package httpjson

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

var lockdBin string

func TestMain(m *testing.M) {
	os.Exit(harness.Run(m, harness.Settings{SideBySide: "8", Before: func() (err error) {
		lockdBin, err = harness.Build("lockd", "-race")
		return err
	}}))
}

// world is a lockd and a client of it.
type world struct {
	*harness.Lockd
	t      testing.TB
	client *http.Client
	scheme string
}

func newWorld(t testing.TB, env ...string) *world {
	t.Helper()
	env = append([]string{"LOCKD_STORE_KIND=memory", "LOCKD_HTTP_LISTEN=127.0.0.1:0"}, env...)
	w := &world{Lockd: harness.StartLockdOn(t, lockdBin, env...), t: t, scheme: "http://"}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: harness.Patience}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// answer is what was answered.
type answer struct {
	code   int
	header http.Header
	text   string
}

// get is a field of an answer, by its path; nil if there is none.
func (a answer) get(path ...string) any {
	var at any
	if err := json.Unmarshal([]byte(a.text), &at); err != nil {
		return nil
	}
	for _, key := range path {
		m, _ := at.(map[string]any)
		at = m[key]
	}
	return at
}

// reason is that of an error.
func (a answer) reason() string {
	details, _ := a.get("details").([]any)
	for _, d := range details {
		if m, _ := d.(map[string]any); m["@type"] == "type.googleapis.com/google.rpc.ErrorInfo" && m["domain"] == "lockd.io" {
			reason, _ := m["reason"].(string)
			return reason
		}
	}
	return ""
}

// try asks once, with headers in pairs.
func (w *world) try(ctx context.Context, method, path, body string, headers ...string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, w.scheme+w.HTTP+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// ask asks once. The answer must have this code.
func (w *world) ask(code int, method, path, body string, headers ...string) answer {
	w.t.Helper()
	a, err := w.try(w.t.Context(), method, path, body, headers...)
	harness.Must(w.t, err)
	if a.code != code || a.get() == nil || a.header.Get("Content-Type") != "application/json" {
		w.t.Fatalf("%s %s %s is answered %d %q, want %d", method, path, body, a.code, a.text, code)
	}
	return a
}

// get is a field of the answer at a path.
func (w *world) get(at string, path ...string) any {
	w.t.Helper()
	return w.ask(http.StatusOK, "GET", at, "").get(path...)
}

// acquire takes a lock for a minute, and returns its lease id.
func (w *world) acquire(name string) string {
	w.t.Helper()
	a := w.ask(http.StatusOK, "POST", "/v1/acquire", body("name", name, "lease", "60s"))
	id, _ := a.get("granted", "leaseId").(string)
	if id == "" {
		w.t.Fatalf("%s is held", name)
	}
	return id
}

// waiters is how many wait for a name.
func (w *world) waiters(name string) int {
	w.t.Helper()
	all, _ := w.ask(http.StatusOK, "GET", "/v1/waiters?name="+name, "").get("waiters").([]any)
	return len(all)
}

// body is an object of texts, in pairs.
func body(pairs ...string) string {
	m := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	var text bytes.Buffer
	_ = json.NewEncoder(&text).Encode(m)
	return text.String()
}

// dial makes a connection by hand, from an address of this machine.
func dial(t testing.TB, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: harness.Patience}
	c, err := d.DialContext(t.Context(), "tcp", to)
	harness.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
