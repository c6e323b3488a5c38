package client_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockd-io/lockd/internal/lockdtest"
)

// addr is a real server with its leases in memory, adminAddr is where its operators connect.
var addr, adminAddr string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(heldEnv) != "" {
		return holdForParent()
	}
	s, err := lockdtest.Run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	addr, adminAddr = s.Addr, s.AdminAddr
	code := m.Run()
	s.Kill()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
