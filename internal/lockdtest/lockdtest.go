// Package lockdtest builds lockd and runs it for tests of its clients: real processes on free ports of the loopback
// interface.
package lockdtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	// go test repeats a cached result while the test binary is the same; so what lockd is built of is made a part of
	// it.
	_ "github.com/lockd-io/lockd/internal/app"
	"github.com/lockd-io/lockd/internal/proctest"
)

const (
	// startTries is how often Start looks for other ports when somebody was quicker.
	startTries = 5
	// readyWithin is how long a server may take until it says that it is ready.
	readyWithin = 20 * time.Second
	// stopWithin is how long SIGSTOP may take.
	stopWithin = 20 * time.Second
)

// Server is a lockd process.
type Server struct {
	// Addr is where clients connect; it stays the same over Restart.
	Addr string
	// AdminAddr is where operators connect.
	AdminAddr string

	bin, ops string
	args     []string
	log      *proctest.Buffer
	cmd      *exec.Cmd
	exited   <-chan struct{}
}

// Start runs a server with further arguments for lockd until the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Run(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Run is Start where there is no test, as in TestMain. The caller ends it by Kill.
func Run(args ...string) (*Server, error) {
	bin, err := Build("lockd")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, args: args}
	for range startTries {
		if err = s.choosePorts(); err != nil {
			continue
		}
		if err = s.Restart(); err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("lockd did not start: %w", err)
}

// choosePorts finds free ports. Somebody else may take them before the server does.
func (s *Server) choosePorts() (err error) {
	for _, addr := range []*string{&s.Addr, &s.ops, &s.AdminAddr} {
		if *addr, err = proctest.FreeAddr(); err != nil {
			return err
		}
	}
	return nil
}

// Kill ends the process at once, as a crash does. It may be called when none runs.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may be gone already
	<-s.exited
	s.cmd = nil
}

// Signal sends the process a signal: SIGTERM for an orderly stop, SIGSTOP and SIGCONT for a pause. After SIGSTOP it
// returns when all threads stand still: the signal is sent before that, and a thread that still runs may answer.
func (s *Server) Signal(sig syscall.Signal) error {
	err := s.cmd.Process.Signal(sig)
	for deadline := time.Now().Add(stopWithin); err == nil && sig == syscall.SIGSTOP && !s.stopped(); {
		if time.Now().After(deadline) {
			return errors.New("the process did not stop")
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

// stopped says whether all threads are in state T, and true where /proc does not tell.
func (s *Server) stopped() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	if err != nil {
		return true
	}
	for _, stat := range stats {
		line, err := os.ReadFile(stat) // PID (NAME) STATE ...
		if _, state, _ := bytes.Cut(line, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// Exited is closed when the process has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Restart kills the process if it runs, starts another one at the same address, and waits until it is ready.
func (s *Server) Restart() error {
	s.Kill()
	args := append([]string{"--listen", s.Addr, "--ops-listen", s.ops, "--admin-listen", s.AdminAddr}, s.args...)
	cmd := exec.CommandContext(context.Background(), s.bin, args...)
	s.log = new(proctest.Buffer)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	exited, err := proctest.Spawn(cmd)
	if err != nil {
		return err
	}
	s.cmd, s.exited = cmd, exited
	if err := s.awaitReady(); err != nil {
		s.Kill()
		return fmt.Errorf("%w\n%s", err, s.log)
	}
	return nil
}

// awaitReady asks the server's own probe.
func (s *Server) awaitReady() error {
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	hc := &http.Client{Timeout: time.Second, Transport: transport}
	for end := time.Now().Add(readyWithin); time.Now().Before(end); {
		if ready(hc, "http://"+s.ops+"/readyz") {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("lockd ended at once")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.New("lockd does not become ready")
}

func ready(hc *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	res, err := hc.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close() // nothing in it is of interest
	return res.StatusCode == http.StatusOK
}

// building is held while a process builds, as several goroutines may.
var building sync.Mutex

// Build builds one of the programs below cmd/ with some flags, and returns its path. All packages of a checkout share
// what is built: who comes later finds it fresh.
func Build(program string, flags ...string) (string, error) {
	building.Lock()
	defer building.Unlock()
	dir, err := builds()
	if err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close() // which unlocks
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	bin := filepath.Join(dir, sum(program+strings.Join(flags, " ")), program)
	args := append(append([]string{"build"}, flags...), "-o", bin, "github.com/lockd-io/lockd/cmd/"+program)
	cmd := exec.CommandContext(context.Background(), "go", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return bin, nil
}

// builds is where this checkout has its programs: beside Go's own cache, which they are made of.
func builds() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	_, here, _, _ := runtime.Caller(0)
	dir := filepath.Join(cache, "lockd-test", sum(here))
	return dir, os.MkdirAll(dir, 0o700)
}

// sum is a short name for a text.
func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:8])
}
