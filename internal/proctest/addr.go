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

// Ports of tests are below 32768: the system gives those above to connections, too, and a server that is started again
// must not find one at its port.
const (
	firstPort = 10_000
	ports     = 12_000
)

// next is where this process looks next: tests that start servers side by side must not get the same port before
// anybody listens on it.
var next atomic.Uint32

func init() { next.Store(rand.Uint32N(ports)) } //nolint:gosec // no secret

// ours takes a port for this process until it ends, and says whether it could. So a server that was stopped finds its
// port free: no test of another package has it meanwhile.
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

// FreeAddr finds a port on which nobody listens at the moment. The ports that are further on by the numbers of also are
// free, too.
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
