package examine

import (
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

func TestAWrongClockIsFound(t *testing.T) {
	for _, row := range []struct {
		ahead, unsure time.Duration
		want          lock.Severity
	}{
		{500 * time.Millisecond, 0, lock.SeverityOK},
		{3 * time.Second, time.Millisecond, lock.SeverityWarning},
		{-3 * time.Second, time.Millisecond, lock.SeverityWarning},
		{3 * time.Second, 2500 * time.Millisecond, lock.SeverityOK},
	} {
		r := &report{}
		Server{OpTime: time.Second}.checkClock(r, clock{ahead: row.ahead, unsure: row.unsure}, nil)
		if f := r.findings[1]; f.Check != Clock || f.Severity != row.want {
			t.Errorf("%v ahead, give or take %v: got %+v, want severity %d", row.ahead, row.unsure, f, row.want)
		}
	}
}

func TestASlowRoundTripIsFound(t *testing.T) {
	for longest, want := range map[time.Duration]lock.Severity{
		200 * time.Millisecond: lock.SeverityOK,
		300 * time.Millisecond: lock.SeverityWarning,
	} {
		r := &report{}
		Server{OpTime: time.Second}.checkClock(r, clock{longest: longest}, nil)
		if f := r.findings[0]; f.Check != Latency || f.Severity != want {
			t.Errorf("%v: got %+v, want severity %d", longest, f, want)
		}
	}
}

func TestReplicasThatAreBehindAreFound(t *testing.T) {
	v := &view{info: map[string]string{
		"connected_slaves": "3",
		"slave0":           "ip=10.0.0.1,port=6379,state=online,offset=14,lag=0",
		"slave1":           "ip=10.0.0.2,port=6379,state=online,offset=1,lag=40",
		"slave2":           "ip=10.0.0.3,port=6379,state=wait_bgsave,offset=0,lag=0",
	}}
	all, good, late := Server{}.replicas(v)
	want := []string{"10.0.0.2:6379 (online, 40 s)", "10.0.0.3:6379 (wait_bgsave, 0 s)"}
	if all != 3 || good != 1 || !slices.Equal(late, want) {
		t.Errorf("got %d, %d in time, late %q", all, good, late)
	}
}

func TestOpenSlotsOfANodeAreFound(t *testing.T) {
	const nodes = `07c3 127.0.0.1:30004@31004 slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:30002@31002 myself,master - 0 1426238316232 2 connected 5461-10922 [93->-292f] [77-<-e7d1]
292f 127.0.0.1:30003@31003 master - 0 1426238318243 3 connected 10923-16383 [5->-67ed]
`
	if got, want := migrating(nodes), []string{"[93->-292f]", "[77-<-e7d1]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
