package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
	"github.com/lockd-io/lockd/test/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testConfig() config.Config {
	c := config.Default()
	c.Listen, c.OpsListen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	return c
}

// start runs an App until stop is called, at the latest at the end of the test. It returns what Run returned.
func start(t *testing.T, cfg config.Config) (a *App, stop func() error) {
	t.Helper()
	return startWith(t, cfg, zaptest.NewLogger(t))
}

func startWith(t *testing.T, cfg config.Config, log *zap.Logger) (a *App, stop func() error) {
	t.Helper()
	a, err := New(cfg, log)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	isRunning := true
	stop = func() error {
		if !isRunning {
			return nil
		}
		isRunning = false
		cancel()
		return <-ended
	}
	t.Cleanup(func() { _ = stop() })
	return a, stop
}

var must = harness.Must // ends the test at an error

// get returns the code and the body of a page, or 0 and the error.
func get(t *testing.T, a *App, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get("http://" + a.OpsAddr() + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(body)
}

func TestItStartsAnswersAndStopsAtOnceWithoutSessions(t *testing.T) {
	a, stop := start(t, testConfig())
	await(t, a, http.StatusOK)
	for path, want := range map[string]string{
		"/healthz": "ok\n",
		"/readyz":  "ready\n",
		"/metrics": "lockd_build_info{",
	} {
		if code, body := get(t, a, path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %.200s, want 200 with %q", path, code, body, want)
		}
	}
	_, metrics := get(t, a, "/metrics")
	for _, want := range []string{"go_goroutines", "process_open_fds", "lockd_"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s among the metrics", want)
		}
	}
	if code, _ := get(t, a, "/debug/pprof/"); code != http.StatusNotFound {
		t.Errorf("profiles are served without being asked for: %d", code)
	}
	c, err := net.Dial("tcp", a.Addr())
	if err != nil {
		t.Fatalf("nobody listens at Addr: %v", err)
	}
	_ = c.Close()

	began := time.Now()
	if err := stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > a.cfg.Shutdown.DrainWindow/2 {
		t.Errorf("the stop took %v with nobody to wait for", took)
	}
	if code, _ := get(t, a, "/healthz"); code != 0 {
		t.Error("the probes still answer after the stop")
	}
}

func TestProfilesOnRequest(t *testing.T) {
	w := httptest.NewRecorder()
	opsHandler(true, nil, newRegistry()).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"/debug/pprof/goroutine?debug=1", nil))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("got %d %.200s", w.Code, w.Body)
	}
}

func TestOpsCanBeSwitchedOff(t *testing.T) {
	cfg := testConfig()
	cfg.OpsListen, cfg.AdminListen = "", ""
	a, stop := start(t, cfg)
	if a.OpsAddr() != "" || a.AdminAddr() != "" {
		t.Errorf("got %q and %q", a.OpsAddr(), a.AdminAddr())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestReadinessFollowsRedis(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill()
	cfg := testConfig()
	cfg.Store.Kind, cfg.Redis.Addr = topology.Standalone, redis.Addr
	a, stop := start(t, cfg)

	await(t, a, http.StatusServiceUnavailable)
	if code, _ := get(t, a, "/healthz"); code != http.StatusOK {
		t.Errorf("without Redis the process counts as dead: %d", code)
	}
	redis.Restart()
	await(t, a, http.StatusOK)
	harness.Until(t, "the status is ready", func() bool {
		got := statusOf(t, a, insecure.NewCredentials())
		return got.GetStore() == topology.Standalone && got.GetReady()
	})
	redis.Kill()
	await(t, a, http.StatusServiceUnavailable)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// statusOf is what the replica tells an operator of itself.
func statusOf(t *testing.T, a *App, as credentials.TransportCredentials) *lockdv1.GetStatusResponse {
	t.Helper()
	conn, err := grpc.NewClient(a.AdminAddr(), grpc.WithTransportCredentials(as))
	must(t, err)
	defer func() { _ = conn.Close() }()
	got, err := lockdv1.NewInspectServiceClient(conn).GetStatus(t.Context(), &lockdv1.GetStatusRequest{})
	must(t, err)
	return got
}

// await waits until /readyz answers with this code.
func await(t *testing.T, a *App, want int) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		code, body := get(t, a, "/readyz")
		if code == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz still answers %d %q, want %d", code, body, want)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestNewLeavesNothingBehindAfterAnError(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = taken.Close() }()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_ = free.Close()

	cfg := testConfig()
	cfg.Listen, cfg.OpsListen = taken.Addr().String(), free.Addr().String()
	if _, err := New(cfg, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "bind listen") {
		t.Fatalf("got %v, want that the address is taken", err)
	}
	again, err := net.Listen("tcp", cfg.OpsListen)
	if err != nil {
		t.Fatalf("ops_listen is still bound: %v", err)
	}
	_ = again.Close()
}

func TestRunEndsWhenAServerFails(t *testing.T) {
	a, err := New(testConfig(), zap.NewNop())
	must(t, err)
	_ = a.listeners[endpoint.Ops].Close()
	if err := a.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

// /readyz says what is configured wrong, and which key to look at.
func TestReadinessSaysWhatIsConfiguredWrong(t *testing.T) {
	redis := redistest.Start(t)
	must(t, redis.Client().ConfigSet(t.Context(), "requirepass", "secret").Err())
	file := certstest.Write(t, filepath.Join(t.TempDir(), "password"), []byte("wrong"))
	for name, row := range map[string]struct {
		file        string
		cause, cure string
	}{
		"wrong password": {file, "WRONGPASS", "check redis.username and redis.password_file"},
		"no password":    {"", "NOAUTH", "set redis.password_file"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Store.Kind, cfg.Redis.Addr = topology.Standalone, redis.Addr
			cfg.Redis.PasswordFile = secret.File(row.file)
			a, _ := start(t, cfg)
			var code int
			var body string
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				code, body = get(t, a, "/readyz")
				if code == http.StatusServiceUnavailable && strings.Contains(body, row.cause) && strings.Contains(body, row.cure) {
					return
				}
			}
			t.Errorf("got %d %q, want %q and %q", code, body, row.cause, row.cure)
		})
	}
}
