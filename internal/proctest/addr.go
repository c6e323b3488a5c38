package proctest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// The system gives out ports above 32767 by itself, to connections too. Who starts a server again at its port must not
// find one of them there.
const (
	firstPort = 10_000
	ports     = 12_000
)

// next is where this process looks next. Tests that start servers side by side are not given the same port while nobody
// listens on it yet.
var next atomic.Uint32

func init() { next.Store(rand.Uint32N(ports)) } //nolint:gosec // no secret

// ours says whether a port is this process's until it ends. So a server that was stopped finds its port free, and no
// test of another package is at it meanwhile.
func ours(port int) bool {
	dir := filepath.Join(os.TempDir(), fmt.Sprint("lockd-test-ports-", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false
	}
	file := filepath.Join(dir, strconv.Itoa(port))
	fd, err := syscall.Open(file, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return false
	}
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true // the descriptor stays open, and so the lock
}

// FreeAddr finds a port nobody listens on at the moment, such that those further on by some numbers are free as well.
func FreeAddr(t testing.TB, also ...int) string {
	t.Helper()
	taken := uint32(1) // ports that are given to nobody else
	for _, n := range also {
		if n < 100 {
			taken = max(taken, uint32(n)+1) //nolint:gosec // small
		}
	}
	for range 1000 {
		port := firstPort + int((next.Add(taken)-taken)%ports)
		free := true
		for _, n := range append([]int{0}, also...) {
			l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", fmt.Sprint("127.0.0.1:", port+n))
			if err != nil {
				free = false
				break
			}
			_ = l.Close() // it was free
			free = free && ours(port+n)
		}
		if free {
			return fmt.Sprint("127.0.0.1:", port)
		}
		next.Add(rand.Uint32N(ports)) //nolint:gosec // no secret; another process has those that follow, often hundreds
	}
	t.Fatal("there is no free port")
	return ""
}
