package httpjson

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

const open = `lockd_connections{endpoint="http_listen"}`

// saidOf is what is said to a client that sends some text and then waits.
func saidOf(t testing.TB, c net.Conn, text string) string {
	t.Helper()
	_, err := io.WriteString(c, text)
	harness.Must(t, err)
	_ = c.SetReadDeadline(time.Now().Add(harness.Patience))
	said, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("whoever sends %.40q may stay", text)
	}
	return string(said)
}

// Who does not finish a request is sent away.
func TestRequestsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const begin = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n"
	for name, row := range map[string]struct{ text, want string }{
		"nothing":          {"", ""},
		"half a header":    {begin + "Content-", ""},
		"no body":          {begin + "Content-Length: 100\r\n\r\n{", "408 "},
		"a large body":     {begin + "Content-Length: 9000\r\n\r\n" + strings.Repeat(" ", 8000), "408 "},
		"a refused one":    {begin + "Origin: http://b\r\nContent-Length: 100\r\n\r\n{", "403 "},
		"a general one":    {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", "408 "},
		"its usual name":   {"GET /v1/status HTTP/1.0\r\nHost: LocalHost\r\n\r\n", "200 OK"},
		"another's name":   {"GET /v1/status HTTP/1.0\r\nHost: evil.example:80\r\n\r\n", "421 "},
		"an address":       {"GET /v1/status HTTP/1.0\r\nHost: [::1]:7424\r\n\r\n", "200 OK"},
		"a chunk":          {begin + "Transfer-Encoding: chunked\r\n\r\n5\r\n{", "408 "},
		"a huge header":    {begin + "A: " + strings.Repeat("x", 17_000) + "\r\n\r\n", "431 "},
		"two requests":     {"GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1/st", "200 OK"},
		"no HTTP":          {"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400 "},
		"a later version":  {"GET / HTTP/3.0\r\n\r\n", "505 "},
		"a frame of HTTP2": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\xff\xff", "\x00\x00\x00\x04"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if said := saidOf(t, dial(t, "127.0.0.1", w.HTTP), row.text); !strings.Contains(said, row.want) {
				t.Errorf("said is %q, want %q", said, row.want)
			}
		})
	}
}

// Who asks and asks and does not read is sent away.
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, what := range []string{"GET /openapi.json", "OPTIONS *"} {
		c := dial(t, "127.0.0.2", w.HTTP)
		ask := strings.Repeat(what+" HTTP/1.1\r\nHost: localhost\r\n\r\n", 100)
		for { // until nothing is taken any more
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := io.WriteString(c, ask); err != nil {
				break
			}
		}
	}
	harness.Until(t, "its connection is closed", func() bool { return w.Metric(open) == 0 })
}

// One address has not all connections, and no connection takes a request of others.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LOCKD_LIMITS_WAITS_PER_ADDRESS=1")
	for range 1100 {
		_, _ = io.WriteString(dial(t, "127.0.0.2", w.HTTP), "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n")
	}
	harness.Until(t, "the oldest are sent away", func() bool { // no header of theirs has come
		return w.Metric(`lockd_connections_displaced_total{endpoint="http_listen"}`) > 0
	})
	if n := w.Metric(open); n > 1001 {
		t.Errorf("%v connections are open", n)
	}
	w.acquire("a")
}

// One address has not all room for large bodies. What it is refused is counted.
func TestManyLargeBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	large := "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat(" ", 8000)
	const denied = `lockd_quota_denied_total{subject="bodies"}`
	for range 65 {
		_, err := io.WriteString(dial(t, "127.0.0.2", w.HTTP), large)
		harness.Must(t, err)
	}
	harness.Until(t, "one of them is refused", func() bool { return w.Metric(denied) == 1 })
	said := saidOf(t, dial(t, "127.0.0.2", w.HTTP), large)
	for _, want := range []string{"429 ", "QUOTA_BODIES", `"limit":"64"`, "Retry-After: 1"} {
		if !strings.Contains(said, want) {
			t.Errorf("answered %q, want %s", said, want)
		}
	}
	if said := saidOf(t, dial(t, "127.0.0.3", w.HTTP), large); !strings.Contains(said, "408 ") { // it had room
		t.Errorf("another address is answered %q", said)
	}
}

// A client of gRPC that comes to the address of HTTP, and the reverse, are told so.
func TestTheWrongAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cc, err := grpc.NewClient(w.HTTP, grpc.WithTransportCredentials(insecure.NewCredentials()))
	harness.Must(t, err)
	defer func() { _ = cc.Close() }()
	wantWrongAddress(t, cc)

	for _, verb := range []string{"GET", "POST", "PUT", "LOCK", "DELETE"} {
		c := dial(t, "127.0.0.1", w.Addr)
		_, err = fmt.Fprintf(c, "%s /v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", verb)
		harness.Must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		harness.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		harness.Must(t, err)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "http_listen") {
			t.Errorf("%s at the address of gRPC is answered %d %q", verb, resp.StatusCode, text)
		}
	}
}

// wantWrongAddress calls twice.
func wantWrongAddress(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	for range 2 {
		_, err := lockdv1.NewInspectServiceClient(cc).GetStatus(
			t.Context(), &lockdv1.GetStatusRequest{}, grpc.WaitForReady(true))
		if status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "gRPC is spoken at listen") {
			t.Errorf("a client of gRPC is told %v", err)
		}
	}
}

// Large bodies that do not end leave room for those of others.
func TestLargeBodiesOfOthersHaveRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const begin = "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n"
	for range 300 {
		_, err := io.WriteString(dial(t, "127.0.0.2", w.HTTP), begin+strings.Repeat(" ", 8000))
		harness.Must(t, err)
	}
	harness.Until(t, "one more of the address is refused", func() bool {
		c := dial(t, "127.0.0.2", w.HTTP)
		_, err := io.WriteString(c, begin+strings.Repeat(" ", 8000))
		harness.Must(t, err)
		_ = c.SetReadDeadline(time.Now().Add(time.Second / 5))
		said := make([]byte, len("HTTP/1.1 429"))
		_, _ = io.ReadFull(c, said)
		return string(said) == "HTTP/1.1 429"
	})
	a := w.ask(http.StatusOK, "POST", "/v1/acquire", body("name", "a", "lease", "60s")+strings.Repeat(" ", 8000))
	if a.get("granted", "fence") == nil {
		t.Errorf("another address is told %s", a.text)
	}
}

// No client writes to the log: neither lines of its own, nor what a terminal would obey.
func TestNobodyWritesToTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const mark = "lookatme"
	for _, header := range []string{
		"Content-Type", "Accept", "Authorization", "Grpc-Metadata-A", "Grpc-Metadata-A-Bin", "Grpc-Timeout", "Traceparent",
		"X-Forwarded-For", "X-Forwarded-Host", "Expect", "Transfer-Encoding",
	} {
		text := fmt.Sprintf("POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\n%s: ;\x9b%s\"x\r\nConnection: close\r\n"+
			"Content-Length: 2\r\n\r\n{}", header, mark)
		if said := saidOf(t, dial(t, "127.0.0.1", w.HTTP), text); !strings.HasPrefix(said, "HTTP/1.1 ") {
			t.Errorf("%s: said is %q", header, said)
		}
	}
	_, _ = w.try(t.Context(), "GET", "/%0a"+mark, "")
	if log := w.Stderr.String(); strings.Contains(log, mark) {
		t.Errorf("the log has %s", log)
	}
}
