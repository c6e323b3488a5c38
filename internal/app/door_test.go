package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/config"
)

// dialFrom connects from an address of this machine.
func dialFrom(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// sentAway says whether a connection is closed by the other side soon.
func sentAway(c net.Conn, soon time.Duration) bool {
	_ = c.SetReadDeadline(time.Now().Add(soon))
	_, err := c.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// Whoever holds connections open keeps neither probes nor operators from coming, and takes no more memory and files.
func TestOneAddressCannotHaveAllConnections(t *testing.T) {
	core, log := observer.New(zapcore.WarnLevel)
	a, _ := startWith(t, testConfig(), zap.New(core))
	for key, at := range map[string]string{"ops_listen": a.OpsAddr(), "admin_listen": a.AdminAddr()} {
		for range fewOfOneAddress {
			dialFrom(t, "127.0.0.1", at)
		}
		for range 3 {
			if !sentAway(dialFrom(t, "127.0.0.1", at), 4*time.Second) {
				t.Errorf("%s: one address may have any number of connections", key)
			}
		}
		if sentAway(dialFrom(t, "127.0.0.2", at), 100*time.Millisecond) {
			t.Errorf("%s: another address was sent away, too", key)
		}
		if n := log.FilterMessageSnippet("too many").FilterField(zap.String("endpoint", key)).Len(); n < 1 || n > 2 {
			t.Errorf("%s: got %d lines of the log", key, n)
		}
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(_ context.Context, _, to string) (net.Conn, error) {
		return dialFrom(t, "127.0.0.3", to), nil
	}}}
	answer, err := client.Get("http://" + a.OpsAddr() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK {
		t.Errorf("got %v %s", answer.Status, text)
	}
}

// Who left makes room; and all together have no more than there is.
func TestAConnectionThatEndsMakesRoom(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	at := newDoors(zap.NewNop(), newRegistry()).open("listen", l, room{all: 3, each: 2})
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
	if _, ok := (<-inside).(*net.TCPConn); !ok {
		t.Error("gRPC gets something else than a connection of package net, and has a buffer for each")
	}
	if !sentAway(dialFrom(t, "127.0.0.3", l.Addr().String()), 4*time.Second) {
		t.Error("a fourth one came in")
	}
	_ = first.Close()
	_ = first.Close() // a second time makes no room
	time.Sleep(2 * shortestRest)
	dialFrom(t, "127.0.0.1", l.Addr().String())
	<-inside
	if !sentAway(dialFrom(t, "127.0.0.3", l.Addr().String()), 4*time.Second) {
		t.Error("one left, and two came in")
	}
}

func TestClientsLeaveFilesForRedis(t *testing.T) {
	cfg := config.Default()
	for files, want := range map[int]int{0: 201_000, 1 << 20: 201_000, 20_000: 20_000 - spareFiles, 600: 300} {
		if got := roomForClients(cfg, files); got.all != want || got.each != 21_000 {
			t.Errorf("with %d files: got %+v", files, got)
		}
	}
	cfg.Limits.SessionsPerAddress = 0
	if got := roomForClients(cfg, 0); got.each != 0 {
		t.Errorf("without a limit: got %+v", got)
	}
}
