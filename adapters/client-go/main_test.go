package lockdlease_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	lockdlease "github.com/lockd-io/lockd/adapters/client-go"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// The elector's durations in tests: another one leads leaseDuration after a crash. A process may stand still for 2 s
// without an end of its term.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = 300 * time.Millisecond
)

// addr is a real server with its leases in memory.
var addr, adminAddr string

// childVariable has this program be an elector instead of tests: the address of the server, and its identity.
const childVariable = "TEST_ELECTOR"

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // what electors log is of no interest
	if what, id, ok := strings.Cut(os.Getenv(childVariable), " "); ok {
		beElector(what, id)
		return
	}
	flag.Parse()
	os.Exit(harness.Run(m, harness.WithLockd(func(d *harness.Lockd) error {
		addr, adminAddr = d.Addr, d.Admin
		return nil
	})))
}

// beElector leads when it can, and says so: it writes for as long as it believes that it leads.
func beElector(addr, id string) {
	c, err := client.Dial(addr)
	if err != nil {
		fmt.Println(err)
		return
	}
	lock := lockdlease.New(c, "processes", id)
	over := make(chan struct{}) // the elector does not wait for the work
	leaderelection.RunOrDie(context.Background(), config(lock, func(ctx context.Context, term *client.Lock) {
		for ctx.Err() == nil && term.Err() == nil {
			fmt.Println("write", term.Fence())
			time.Sleep(5 * time.Millisecond)
		}
		fmt.Println("over", term.Fence(), context.Cause(term.Context()))
		close(over)
	}))
	<-over // it returns when it has led
	fmt.Println("stopped")
}

func config(
	lock *lockdlease.Lock, work func(ctx context.Context, term *client.Lock),
) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: lock.Leading(work), OnStoppedLeading: func() {},
		},
	}
}

// startElector runs an elector as a process.
func startElector(t *testing.T, id string) *proctest.Process {
	t.Helper()
	return proctest.Start(t, os.Args[0], []string{childVariable + "=" + addr + " " + id})
}

// wrote is the fence with which an elector wrote last; 0 = it never did.
func wrote(p *proctest.Process) (fence uint64) {
	for line := range strings.Lines(p.Stdout.String()) {
		if strings.HasSuffix(line, "\n") { // else it is not complete
			_, _ = fmt.Sscanf(line, "write %d", &fence) // other lines
		}
	}
	return fence
}
