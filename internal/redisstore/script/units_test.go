package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

func TestMeaningOfErrors(t *testing.T) {
	const sha = " script: 0d8e4c3ecda825a4b587f068f712d361050b4655, on @user_script:37."
	const old = "ERR Error running script (call to f_0d8e4c3ecda825a4b587f068f712d361050b4655): @user_script:37: " +
		"@user_script: 37: "
	replies := map[string]error{
		"OOM command not allowed when used memory > 'maxmemory'." + sha: lock.ErrStoreFull,
		old + "-OOM command not allowed when used memory > 'maxmemory'": lock.ErrStoreFull,
		"@user_script: 37: -OOM command not allowed when used memory":   lock.ErrStoreFull,      // caught
		"@user_script:37: @user_script: 37: -READONLY You can't write":  lock.ErrUnavailable,    // likewise
		"@user_script: 37: -WRONGTYPE Operation against a key":          lock.ErrOutcomeUnknown, // likewise
		"a text with @user_script: 37: -OOM in it":                      lock.ErrOutcomeUnknown,
		"WRONGTYPE Operation against a key holding the wrong kind":      lock.ErrOutcomeUnknown, // half-way, perhaps
		old + "WRONGTYPE Operation against a key":                       lock.ErrOutcomeUnknown,
		"LOCKDKIND the fence key holds no fence":                        lock.ErrKindMismatch,
		"READONLY You can't write against a read only replica." + sha:   lock.ErrUnavailable,
		old + "-READONLY You can't write against a read only replica":   lock.ErrUnavailable,
		"LOADING Redis is loading the dataset in memory":                lock.ErrUnavailable,
		"MASTERDOWN Link with MASTER is down":                           lock.ErrUnavailable,
		"CLUSTERDOWN The cluster is down":                               lock.ErrUnavailable,
		"MISCONF Redis is configured to save RDB snapshots":             lock.ErrUnavailable,
		"BUSY Redis is busy running a script":                           lock.ErrUnavailable,
		"NOAUTH Authentication required.":                               lock.ErrUnavailable,
		"NOREPLICAS Not enough good replicas to write.":                 lock.ErrUnavailable,
		"ERR max number of clients reached":                             lock.ErrUnavailable,
		"ERR user_script:1: attempt to index a nil value" + sha:         lock.ErrOutcomeUnknown,
		"NOPERM this user has no permissions" + sha:                     lock.ErrOutcomeUnknown,
		"SOMETHING new": lock.ErrOutcomeUnknown,
	}
	for text, want := range replies {
		if got := replyMeaning(text); !errors.Is(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct{ err, want error }{
		{fmt.Errorf("%w: %w", pipe.ErrNotConnected, dial), lock.ErrUnavailable},
		{pipe.ErrQueueFull, lock.ErrUnavailable},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, lock.ErrOutcomeUnknown},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, lock.ErrOutcomeUnknown},
		{io.EOF, lock.ErrOutcomeUnknown},
		{net.ErrClosed, lock.ErrOutcomeUnknown},
		{context.DeadlineExceeded, lock.ErrOutcomeUnknown},
		{context.Canceled, lock.ErrOutcomeUnknown},
		{errors.New("new"), lock.ErrOutcomeUnknown},
	} {
		if got := Meaning(c.err); !errors.Is(got, c.want) {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

func TestMillisecondsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 1, 1: 1, time.Microsecond: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2,
	} {
		if got := Millis(d); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
	}
}
