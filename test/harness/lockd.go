package harness

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
)

// Lockd is a server.
type Lockd struct {
	*proctest.Process
	Addr  string // where clients connect
	Ops   string // where metrics and probes are
	Admin string // where operators connect
	HTTP  string // where clients connect by HTTP, "" if nowhere

	t    testing.TB // nil if it belongs to no test
	bin  string
	env  []string
	args []string
}

// StartLockd runs a server on free ports before a Redis, with further variables such as "LOCKD_SESSION_TTL=3s". It
// waits until the server is ready.
func StartLockd(t testing.TB, bin, redis string, env ...string) *Lockd {
	t.Helper()
	return StartLockdOn(t, bin, append([]string{"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + redis}, env...)...)
}

// StartLockdOn is StartLockd with the store that the variables name.
func StartLockdOn(t testing.TB, bin string, env ...string) *Lockd {
	t.Helper()
	return (&Lockd{t: t, bin: bin, env: env}).must()
}

// StartLockdWith is StartLockdOn with arguments in place of variables, as lockd is shipped. It can be started again.
func StartLockdWith(t testing.TB, args ...string) *Lockd {
	t.Helper()
	bin, err := Build("lockd")
	if err != nil {
		t.Fatal(err)
	}
	d := &Lockd{t: t, bin: bin, args: args}
	d.Addr, d.Ops, d.Admin = proctest.FreeAddr(t), proctest.FreeAddr(t), proctest.FreeAddr(t)
	return d.must()
}

// Restart kills the server if it runs, starts another one at the same addresses, and waits until it is ready.
func (d *Lockd) Restart() { d.t.Helper(); d.Kill(); d.must() }

func (d *Lockd) must() *Lockd {
	d.t.Helper()
	if err := d.start(); err != nil {
		d.t.Fatal(err)
	}
	return d
}

// start runs the process and waits until it is ready.
func (d *Lockd) start() error {
	free := func(addr string) string { return cmp.Or(addr, "127.0.0.1:0") }
	env := append([]string{
		"LOCKD_LISTEN=" + free(d.Addr), "LOCKD_OPS_LISTEN=" + free(d.Ops), "LOCKD_ADMIN_LISTEN=" + free(d.Admin),
		"LOCKD_LOG_FORMAT=json",
	}, d.env...)
	d.Process = proctest.Command(d.bin, env, d.args...)
	if d.t == nil {
		if err := d.Process.Launch(); err != nil {
			return err
		}
	} else if err := readSources(); err != nil {
		return err
	} else {
		d.Process.Start(d.t)
	}
	return d.await()
}

// await waits until the process is a server that is ready.
func (d *Lockd) await() error {
	for end := time.Now().Add(Patience); time.Now().Before(end) && !d.Ended(); time.Sleep(2 * time.Millisecond) {
		if d.Ops == "" || d.Addr == "" {
			line := d.Logged("lockd serves")
			d.Addr, _ = line["listen"].(string)
			d.Ops, _ = line["ops_listen"].(string)
			d.Admin, _ = line["admin_listen"].(string)
			d.HTTP, _ = line["http_listen"].(string)
		} else if code, _ := d.Get("/readyz"); code == http.StatusOK {
			return nil
		}
	}
	d.Kill()
	return fmt.Errorf("lockd does not become ready: %s", d.Stderr.String())
}

// Logged is the first line of the log with this message, nil if there is none.
func (d *Lockd) Logged(message string) map[string]any {
	for line := range strings.Lines(d.Stderr.String()) {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) == nil && v["msg"] == message {
			return v
		}
	}
	return nil
}

// Get asks the server's page for operators, for some type of content; the code is 0 if nobody answers.
func (d *Lockd) Get(path string, accept ...string) (code int, body string) {
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Patience}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+d.Ops+path, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	req.Header["Accept"] = accept
	resp, err := hc.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// Metric reads one. Labels are part of the name.
func (d *Lockd) Metric(name string) float64 {
	d.t.Helper()
	_, body := d.Get("/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				d.t.Fatal(err)
			}
			return v
		}
	}
	d.t.Fatalf("no metric %s", name)
	return 0
}

// Heap is the memory of all that lives after a garbage collection. The collector has more, and how much that is depends
// on the order in which things ended. It needs LOCKD_OPS_PPROF.
func (d *Lockd) Heap() float64 {
	d.t.Helper()
	if code, body := d.Get("/debug/pprof/heap?gc=1"); code != http.StatusOK {
		d.t.Fatalf("no garbage collection: %d %s", code, body)
	}
	return d.Metric("go_memstats_heap_alloc_bytes")
}

// Tool starts a program that finds the server in its variables, as lockctl does.
func (d *Lockd) Tool(bin string, args ...string) *proctest.Process {
	d.t.Helper()
	return proctest.Start(d.t, bin, []string{"LOCKD_ADDR=" + d.Addr, "LOCKD_ADMIN_ADDR=" + d.Admin}, args...)
}

// Dial makes a client of the SDK for the time of a test.
func (d *Lockd) Dial(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	return Dial(t, d.Addr, opts...)
}

// Dial makes a client of the SDK for some servers, which waits for them as long as a busy machine needs.
func Dial(t testing.TB, addrs string, opts ...client.Option) *client.Client {
	t.Helper()
	Must(t, readSources())
	c, err := client.Dial(addrs,
		append([]client.Option{client.WithConnectWait(Patience), client.WithAnswerTimeout(Patience)}, opts...)...)
	Must(t, err)
	t.Cleanup(func() { _ = c.Close() }) // lockd may be gone
	return c
}

// Connect makes a connection for the stubs.
func (d *Lockd) Connect(t testing.TB) *grpc.ClientConn { t.Helper(); return connect(t, d.Addr) }

// Operate is Connect for operators.
func (d *Lockd) Operate(t testing.TB) *grpc.ClientConn { t.Helper(); return connect(t, d.Admin) }

func connect(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
