package httpapi

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/lockd-io/lockd/internal/limits"
)

// till is Calls that add up what is paid.
type till struct {
	grpc.ClientConnInterface
	paid  time.Duration
	calls int
}

func (t *till) Visit(ctx context.Context, _ string, _ *tls.ConnectionState, _ []string, price time.Duration) (
	inside context.Context, leave func(), err error,
) {
	t.paid += limits.Unary + price
	return ctx, func() {}, nil
}

func (t *till) Pay(_ string, price time.Duration) { t.paid += price }

func (t *till) Denied(string, int) error { return nil }

func (t *till) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	t.calls++
	return nil
}

// ask makes one request, and returns what is paid for it and how it is answered.
func ask(t *testing.T, method, path, body string, headers ...string) (*till, *httptest.ResponseRecorder) {
	t.Helper()
	calls := new(till)
	h, err := New(calls, limits.Limits{NameBytes: 512, HolderBytes: 128, AnnotationBytes: 4096}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	if r.Header.Get("Transfer-Encoding") != "" {
		r.ContentLength = -1
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return calls, w
}

// What makes lockd work is paid for, whatever becomes of the request. The prices are what it was measured to cost.
func TestLargeRequestsArePaidFor(t *testing.T) {
	const small = `{"name":"a","lease":"10s"}`
	large := `{"name":"a","lease":"10s"` + strings.Repeat(" ", 30_000) + "}"
	const least, most = 400 * time.Microsecond, time.Millisecond
	curl, chunked := []string{"User-Agent", "curl/8.0"}, []string{"Transfer-Encoding", "chunked"}
	var many []string
	for range 2400 {
		many = append(many, "A", "b")
	}
	for name, row := range map[string]struct {
		method, path, body string
		headers            []string
		least, most        time.Duration
	}{
		"a usual one":  {"POST", "/v1/acquire", small, curl, limits.Unary, limits.Unary * 11 / 10},
		"many headers": {"GET", "/v1/status", "", many, least, most},
		"a long query": {"GET", "/v1/lock?name=" + strings.Repeat("a&", 6000), "", nil, least, most},
		"a large body": {"POST", "/v1/acquire", large, nil, least, most},
		"a too large one": {
			"POST", "/v1/acquire", strings.Repeat(large, 2), nil, least, most,
		},
		"chunks":      {"POST", "/v1/acquire", large, chunked, time.Millisecond, 2 * time.Millisecond},
		"of a page":   {"POST", "/v1/acquire", small, []string{"Origin", "http://b"}, limits.Unary, limits.Unary * 11 / 10},
		"to no place": {"POST", "/nowhere", small, nil, limits.Unary, limits.Unary * 11 / 10},
	} {
		t.Run(name, func(t *testing.T) {
			calls, _ := ask(t, row.method, row.path, row.body, row.headers...)
			if calls.paid < row.least || calls.paid > row.most {
				t.Errorf("%v is paid, want %v to %v", calls.paid, row.least, row.most)
			}
		})
	}
}

// What another one on the way may read in another way is refused, and not passed over.
func TestWhatCanBeMistakenIsRefused(t *testing.T) {
	const good = `{"name":"a","lease":"10s"}`
	for name, row := range map[string]struct {
		method, path, body string
		code, calls        int
	}{
		"good":                 {"POST", "/v1/acquire", good, 200, 1},
		"two requests":         {"POST", "/v1/acquire", good + good, 400, 0},
		"more behind it":       {"POST", "/v1/acquire", good + "x", 400, 0},
		"space behind it":      {"POST", "/v1/acquire", good + "\n", 200, 1},
		"nothing":              {"POST", "/v1/drain", "", 200, 1},
		"a query":              {"POST", "/v1/acquire?wait=10s", good, 400, 0},
		"an encoded slash":     {"POST", "/v1%2facquire", good, 400, 0},
		"an encoded letter":    {"POST", "/v1/%61cquire", good, 400, 0},
		"encoded in a query":   {"GET", "/v1/lock?name=a%2fb", "", 200, 1},
		"an encoded terraform": {"LOCK", "/v1/%74erraform?name=a", `{"ID":"1"}`, 400, 0},
	} {
		t.Run(name, func(t *testing.T) {
			calls, w := ask(t, row.method, row.path, row.body)
			if w.Code != row.code || calls.calls != row.calls {
				t.Errorf("answered %d %s after %d calls, want %d and %d", w.Code, w.Body, calls.calls, row.code, row.calls)
			}
		})
	}
}

// Nobody has to read again all that a client sent.
func TestErrorsAreBrief(t *testing.T) {
	for _, row := range [][3]string{
		{"POST", "/v1/acquire", `{"permits":` + strings.Repeat("9", 30_000) + "}"},
		{"GET", "/v1/lock?" + strings.Repeat("name=a&", 1500), ""},
		{"GET", "/" + strings.Repeat("%1b", 3000), ""},
		{"GET", "/" + strings.Repeat("x", 10_000), ""},
	} {
		if _, w := ask(t, row[0], row[1], row[2]); w.Code < http.StatusBadRequest || w.Body.Len() > 2000 {
			t.Errorf("%.20s %.20s is answered %d with %d bytes", row[0], row[1], w.Code, w.Body.Len())
		}
	}
}

// Two credentials are none, also for Terraform.
func TestTwoCredentialsAreNone(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), "LOCK", terraformPath, nil)
	r.SetBasicAuth("lockd", "secret")
	if got := authorization(r); len(got) != 1 || got[0] != "Bearer secret" {
		t.Errorf("one is %q", got)
	}
	r.Header.Add("Authorization", "Bearer other")
	if got := authorization(r); len(got) != 2 {
		t.Errorf("two are %q", got)
	}
}
