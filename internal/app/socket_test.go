package app

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/topology"
)

// lockd serves at sockets of its machine and keeps leases in a Redis behind one, also after a process was killed there.
func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	redis := redistest.Start(t, "--unixsocket", at("redis"))
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: at("clients"), Net: "unix"})
	must(t, err)
	left.SetUnlinkOnClose(false) // as if it had been killed
	must(t, left.Close())

	cfg := testConfig()
	cfg.Listen, cfg.AdminListen = endpoint.Socket+at("clients"), endpoint.Socket+at("operators")
	cfg.Store.Kind, cfg.Redis.Addr = topology.Standalone, "unix://"+at("redis")
	a, stop := start(t, cfg)
	if a.Addr() != cfg.Listen || a.AdminAddr() != cfg.AdminListen {
		t.Errorf("serves at %s and %s", a.Addr(), a.AdminAddr())
	}
	c, err := client.Dial(a.Addr(), client.WithAnswerTimeout(20*time.Second))
	must(t, err)
	lease, err := c.Lock(t.Context(), "door")
	must(t, err)
	if n, err := redis.Client().Exists(t.Context(), "door").Result(); n != 1 || err != nil {
		t.Errorf("the lease is not in Redis: %v", err)
	}
	if second, err := New(cfg, zap.NewNop()); err == nil {
		t.Error("two listen at one socket")
		_ = second.close()
	}
	must(t, lease.Unlock(t.Context()))
	must(t, c.Close())
	must(t, stop())
	if _, err := os.Stat(at("clients")); !os.IsNotExist(err) {
		t.Errorf("the socket was left: %v", err)
	}
}

// A file that is no socket is not taken for one that was left.
func TestAFileIsNoSocketThatWasLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	cfg := testConfig()
	cfg.Listen = endpoint.Socket + path
	if a, err := New(cfg, zap.NewNop()); err == nil {
		t.Error("it listens at a file")
		_ = a.close()
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "x" {
		t.Errorf("the file was harmed: %q, %v", text, err)
	}
}
