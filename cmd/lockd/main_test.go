package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	harness.Must(t, os.WriteFile(bad, []byte("sesion: {ttl: 3s}\n"), 0o600))
	noPassword := filepath.Join(dir, "no-password.yaml")
	text := "redis: {addr: \"127.0.0.1:1\", password_file: \"" + filepath.Join(dir, "none") + "\"}\n"
	harness.Must(t, os.WriteFile(noPassword, []byte(text), 0o600))
	noCluster := redistest.Start(t).Addr
	rows := []struct {
		want int
		args []string
	}{
		{0, []string{"--help"}},
		{0, []string{"--version"}},
		{0, []string{"--check-config", "../../configs/lockd.yaml"}},
		{exitUsage, []string{"--no-such-flag"}},
		{exitUsage, []string{"word"}},
		{exitConfig, []string{"--check-config", bad}},
		{exitConfig, []string{"--config", bad}},
		{exitConfig, []string{"--config", filepath.Join(dir, "none.yaml")}},
		{exitConfig, []string{"--listen", ":7421"}},
		{exitConfig, []string{"--config", noPassword, "--listen", "127.0.0.1:0", "--ops-listen", "", "--admin-listen", ""}},
		{exitConfig, []string{
			"--redis", "cluster://" + noCluster, "--listen", "127.0.0.1:0", "--ops-listen", "", "--admin-listen", "",
		}},
		{exitConfig, []string{
			"--redlock", "127.0.0.1:1,127.0.0.1:2,cluster://" + noCluster,
			"--listen", "127.0.0.1:0", "--ops-listen", "", "--admin-listen", "",
		}},
		// no address of this machine
		{exitFailed, []string{"--listen", "192.0.2.1:1", "--ops-listen", "", "--admin-listen", ""}},
	}
	for _, row := range rows {
		if got := run(row.args); got != row.want {
			t.Errorf("lockd %q: got %d, want %d", row.args, got, row.want)
		}
	}
}

// TestMain makes the test binary a lockd when it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("BE_LOCKD") != "" {
		main()
	}
	os.Exit(m.Run())
}

// startLockd starts a process and returns it with the address where clients connect, and its log from there on.
func startLockd(t *testing.T) (cmd *exec.Cmd, addr string, log *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "--listen", "127.0.0.1:0", "--ops-listen", "", "--admin-listen", "")
	cmd.Env = append(os.Environ(), "BE_LOCKD=1")
	stderr, err := cmd.StderrPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	log = bufio.NewScanner(stderr)
	for log.Scan() {
		var line struct{ Listen string }
		if json.Unmarshal(log.Bytes(), &line) == nil && line.Listen != "" {
			return cmd, line.Listen, log
		}
	}
	t.Fatal("lockd did not start")
	return nil, "", nil
}

func send(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	harness.Must(t, cmd.Process.Signal(sig))
}

func TestOneSignalStopsItCleanly(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		cmd, _, log := startLockd(t)
		send(t, cmd, sig)
		for log.Scan() { // to the end, or Wait could cut the log short
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v, want exit code 0", sig, err)
		}
	}
}

func TestTheSecondSignalEndsItAtOnce(t *testing.T) {
	cmd, addr, log := startLockd(t)
	c, err := client.Dial(addr)
	harness.Must(t, err)
	defer c.Close()
	if _, err := c.Lock(t.Context(), "name"); err != nil {
		t.Fatal(err)
	}
	send(t, cmd, syscall.SIGTERM)
	for log.Scan() && !strings.Contains(log.Text(), "asked the sessions to move") {
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for log.Scan() {
		}
	}()
	// The first signal's handler goes away a moment after it was heard, so one more may still meet it.
	harness.Until(t, "it has ended", func() bool {
		select {
		case <-ended:
			return true
		default:
			send(t, cmd, syscall.SIGTERM)
			return false
		}
	})
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("got %v, want that the signal ended it", err)
	}
}
