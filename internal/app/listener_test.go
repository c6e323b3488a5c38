package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/endpoint"
)

// dialFrom connects from an address of this machine.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", to)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// sentAway says whether a connection is closed by the other side soon.
func sentAway(c net.Conn, soon time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(soon))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// Whoever holds connections open, from however many addresses, keeps neither probes nor operators from coming.
func TestProbesAlwaysHaveRoom(t *testing.T) {
	a, _ := startWith(t, testConfig(), zap.NewNop())
	begins := map[string]string{"ops_listen": "GET /healthz HTTP/1.1", "admin_listen": "PRI * HTTP/2.0"} // and no more
	for key, at := range map[string]string{"ops_listen": a.OpsAddr(), "admin_listen": a.AdminAddr()} {
		first := dialFrom(t, "127.0.0.2", at)
		for i := range 6 {
			for range fewOfOneAddress + 8 {
				c := dialFrom(t, fmt.Sprint("127.0.0.", 2+i), at)
				_, _ = io.WriteString(c, begins[key])
			}
		}
		_ = first.SetReadDeadline(time.Now().Add(4 * time.Second))
		if _, err := io.Copy(io.Discard, first); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: one address may have any number of connections", key)
		}
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.7", "127.0.0.99"} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			probe(t, from, "http://"+a.OpsAddr()+path)
		}
	}
	// An operator that is there stays while others come from elsewhere.
	operator := dialFrom(t, "127.0.0.98", a.AdminAddr())
	for i := range 4 * fewOfOneAddress {
		dialFrom(t, fmt.Sprint("127.0.0.", 2+i%6), a.AdminAddr())
	}
	_ = operator.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := io.Copy(io.Discard, operator); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the operator was sent away for others: %v", err)
	}
}

// probe asks over a connection of its own.
func probe(t *testing.T, from, url string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(_ context.Context, _, to string) (net.Conn, error) { return dialFrom(t, from, to), nil },
	}, Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		t.Errorf("%s from %s: %v", url, from, err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Errorf("%s from %s: got %v %s", url, from, answer.Status, text)
	}
}

// A connection that is closed makes room, and all together have no more than there is.
func TestAConnectionThatEndsMakesRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	at := bounded("listen", l, capacity{all: 3, each: 2}, zap.NewNop(), newRegistry())
	inside := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				close(inside)
				return
			}
			inside <- c
		}
	}()
	dialFrom(t, "127.0.0.1", l.Addr().String())
	dialFrom(t, "127.0.0.1", l.Addr().String())
	first := <-inside
	for range 3 { // one that is refused is not counted
		if !sentAway(dialFrom(t, "127.0.0.1", l.Addr().String()), 4*time.Second) {
			t.Error("a third one of one address came in")
		}
	}
	<-inside
	dialFrom(t, "127.0.0.2", l.Addr().String())
	<-inside
	if !sentAway(dialFrom(t, "127.0.0.3", l.Addr().String()), 4*time.Second) {
		t.Error("a fourth one came in")
	}
	_ = first.Close()
	_ = first.Close() // a second time makes no room
	dialFrom(t, "127.0.0.1", l.Addr().String())
	<-inside
	if !sentAway(dialFrom(t, "127.0.0.3", l.Addr().String()), 4*time.Second) {
		t.Error("one left, and two came in")
	}
}

func TestClientsLeaveFilesForRedis(t *testing.T) {
	cfg := config.Default()
	for files, want := range map[int]int{0: 201_000, 1 << 20: 201_000, 20_000: 20_000 - spareFiles, 600: 300} {
		if got := capacityForClients(cfg, files); got.all != want || got.each != 21_000 {
			t.Errorf("with %d files: got %+v", files, got)
		}
	}
	cfg.Limits.SessionsPerAddress = 0
	if got := capacityForClients(cfg, 0); got.each != 0 {
		t.Errorf("without a limit: got %+v", got)
	}
}

// Connections from few addresses on which nothing is asked keep nobody from coming by HTTP. A request that waits is not
// cut for others.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	cfg := testConfig()
	cfg.HTTPListen, cfg.Limits.WaitsPerAddress = "127.0.0.1:0", httpConnections
	a, _ := startWith(t, cfg, zap.NewNop())
	waits := func(wait string) net.Conn {
		c := dialFrom(t, "127.0.0.2", a.HTTPAddr())
		body := fmt.Sprintf(`{"name":"a","lease":"120s","wait":%q}`, wait)
		_, err := fmt.Fprintf(c, "POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s",
			len(body), body)
		must(t, err)
		return c
	}
	answered := func(c net.Conn) {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := c.Read(make([]byte, 1))
		must(t, err)
	}
	answered(waits("0s"))
	waiting := waits("60s") // the oldest but one of an address that will have many
	all := a.listeners[endpoint.HTTP].(*listener)
	all.mu.Lock()
	all.capacity.all, all.each = 40, 20
	all.mu.Unlock()
	for i := range 3 {
		for range 20 {
			c := dialFrom(t, fmt.Sprint("127.0.0.", 2+i), a.HTTPAddr())
			_, _ = io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
			answered(c)
		}
	}
	for _, from := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.99"} { // with many, with most, and with none
		probe(t, from, "http://"+a.HTTPAddr()+"/v1/status")
	}
	_ = waiting.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if said, err := io.ReadAll(waiting); !errors.Is(err, os.ErrDeadlineExceeded) || len(said) > 0 {
		t.Errorf("a request that waits was cut: %q, %v", said, err)
	}
}
