package client_test

import (
	"flag"
	"os"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

// addr is a real server with its leases in memory, adminAddr is where its operators connect.
var addr, adminAddr string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.WithLockd(func(d *harness.Lockd) error {
		addr, adminAddr = d.Addr, d.Admin
		return nil
	})))
}
