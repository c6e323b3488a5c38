package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/brokertest"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/console"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/internal/watchdog"
	"github.com/lockd-io/lockd/internal/web"
	"github.com/lockd-io/lockd/test/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = harness.Must // ends the test at an error

// The clients of world, by their tokens.
const clients = `
clients:
- {name: ops, token_sha256: [%s], lock: ["*"], admin: [force, limit, examine]}
- {name: guest, token_sha256: [%s], look: ["public:*"]}
- {name: worker, token_sha256: [%s], lock: ["*"]}
`

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// world is a lockd with a console.
type world struct {
	t       testing.TB
	site    *httptest.Server
	console *console.Console
	conn    *grpc.ClientConn
}

// start makes a world with a clients file.
func start(t testing.TB) *world {
	t.Helper()
	return startWith(t, guardOf(t), console.Config{Replica: "r1", Clients: func() []console.Client {
		return []console.Client{{
			Name: "idle", Lock: []string{"jobs/*"}, Deny: []string{"jobs/pay"}, Quota: limits.Allowance{Locks: 77},
		}}
	}})
}

// guardOf has the clients of world.
func guardOf(t testing.TB) *security.Guard {
	t.Helper()
	text := fmt.Sprintf(clients, hashOf("ops-token"), hashOf("guest-token"), hashOf("worker-token"))
	file := certstest.Write(t, filepath.Join(t.TempDir(), "clients.yaml"), []byte(text))
	guard, err := security.Open(security.Config{File: file}, zap.NewNop(), prometheus.NewRegistry())
	must(t, err)
	t.Cleanup(guard.Close)
	return guard
}

func startWith(t testing.TB, guard *security.Guard, cfg console.Config) *world {
	t.Helper()
	return startChanged(t, guard, cfg, func(c console.Calls) console.Calls { return c })
}

func startChanged(
	t testing.TB, guard *security.Guard, cfg console.Config, change func(console.Calls) console.Calls,
) *world {
	t.Helper()
	log, reg, store := zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), prometheus.NewRegistry(), memstore.New()
	dog := watchdog.New[*broker.Lease](store, log, reg)
	b := broker.New(brokertest.Config(), store, dog, log, reg)
	srv := grpcapi.New(grpcapi.Config{
		OpenTimeout: 5 * time.Second, Version: "v0", Store: "memory", Guard: guard,
		KeepaliveTime: 20 * time.Second, KeepaliveTimeout: 10 * time.Second, KeepaliveMinTime: 10 * time.Second,
		Examine: examined,
	}, b, log, reg)
	b.Review(guard.EndsHolds(), guard.Allowances())
	lis := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	cfg.Examine, cfg.Numbers = examined, reg
	pages, err := console.New(cfg, change(srv.Local()), log)
	must(t, err)
	w := &world{t: t, console: pages, conn: conn, site: httptest.NewUnstartedServer(nil)}
	w.site.Config = web.NewServer("console_listen", pages, log)
	w.site.Start()
	t.Cleanup(func() {
		w.console.Close()
		w.site.Close()
		_ = conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = b.Close(ctx)
		srv.Stop(ctx)
		must(t, <-served)
		dog.Close()
	})
	return w
}

func examined(context.Context) []lock.Finding {
	return []lock.Finding{
		{Severity: lock.SeverityOK, Check: "READY", Detail: "it serves"},
		{Severity: lock.SeverityWarning, Check: "RENEWALS", Detail: "they are late", Remedy: "more processors"},
	}
}

// session is one of lockd, of a client who has a token of its own.
type session struct {
	w *world
	lockdv1.SessionService_SessionClient
	last  uint64
	actor string // of its requests
}

func (w *world) session(client string) *session {
	w.t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(context.Background(),
		"authorization", "Bearer worker-token"))
	w.t.Cleanup(cancel)
	c, err := lockdv1.NewSessionServiceClient(w.conn).Session(ctx)
	must(w.t, err)
	s := &session{w: w, SessionService_SessionClient: c}
	s.send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{ClientName: client}}})
	if m := s.recv(); m.GetOpened() == nil {
		w.t.Fatalf("got %v, want Opened", m)
	}
	return s
}

func (s *session) send(m *lockdv1.SessionRequest) { s.w.t.Helper(); must(s.w.t, s.Send(m)) }

func (s *session) recv() *lockdv1.SessionResponse {
	s.w.t.Helper()
	m, err := s.Recv()
	must(s.w.t, err)
	return m
}

// ask asks for a lock, and returns the first answer.
func (s *session) ask(name, annotation string) *lockdv1.SessionResponse {
	s.w.t.Helper()
	s.last++
	s.send(&lockdv1.SessionRequest{RequestId: s.last, Message: &lockdv1.SessionRequest_Acquire{
		Acquire: &lockdv1.Acquire{Name: name, Annotation: annotation, Actor: s.actor},
	}})
	return s.recv()
}

func (s *session) take(name string) {
	s.w.t.Helper()
	if m := s.ask(name, "for "+name); m.GetGranted() == nil {
		s.w.t.Fatalf("got %v, want a grant", m)
	}
}

func (s *session) queue(name string) {
	s.w.t.Helper()
	if m := s.ask(name, ""); m.GetQueued() == nil {
		s.w.t.Fatalf("got %v, want Queued", m)
	}
}

// browser is somebody with cookies.
type browser struct {
	w *world
	http.Client
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	must(w.t, err)
	return &browser{w, http.Client{Jar: jar, Timeout: 20 * time.Second, Transport: w.site.Client().Transport}}
}

// login is a browser of somebody who gave a token.
func (w *world) login(token string) *browser {
	w.t.Helper()
	b := w.browser()
	code, body := b.post("/login", url.Values{"token": {token}})
	if code != http.StatusOK || !strings.Contains(body, "Log out") {
		w.t.Fatalf("the login: %d %s", code, body)
	}
	return b
}

func (b *browser) do(r *http.Request) (code int, body string, h http.Header) {
	b.w.t.Helper()
	resp, err := b.Do(r)
	must(b.w.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(b.w.t, err)
	return resp.StatusCode, string(text), resp.Header
}

func (b *browser) request(method, path string, form url.Values) *http.Request {
	b.w.t.Helper()
	r, err := http.NewRequestWithContext(b.w.t.Context(), method, b.w.site.URL+path, strings.NewReader(form.Encode()))
	must(b.w.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return r
}

func (b *browser) get(path string) (code int, body string) {
	b.w.t.Helper()
	code, body, _ = b.do(b.request(http.MethodGet, path, nil))
	return code, body
}

// post sends a form, with what forms of pages have besides.
func (b *browser) post(path string, form url.Values) (code int, body string) {
	b.w.t.Helper()
	if path != "/login" && !form.Has("form") {
		_, page := b.get("/sessions")
		if found := formToken.FindStringSubmatch(page); found != nil {
			form.Set("form", found[1])
		}
	}
	code, body, _ = b.do(b.request(http.MethodPost, path, form))
	return code, body
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// wants checks a page.
func wants(t testing.TB, what string, code, wantCode int, body string, texts ...string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("%s: got %d, want %d: %s", what, code, wantCode, mainOf(body))
	}
	for _, text := range texts {
		if text, not := strings.CutPrefix(text, "!"); strings.Contains(body, text) == not {
			t.Errorf("%s: %q is there: %v; want the contrary in %s", what, text, !not, mainOf(body))
		}
	}
}

// mainOf is a page without what all pages have.
func mainOf(body string) string {
	if _, main, found := strings.Cut(body, "<main"); found {
		body, _, _ = strings.Cut(main, "<footer")
	}
	return body
}
