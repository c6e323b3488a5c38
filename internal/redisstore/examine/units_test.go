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

func TestAClusterThatLacksNodesIsFound(t *testing.T) {
	for _, row := range []struct {
		state, assigned, fail, pfail string
		want                         lock.Severity
	}{
		{"ok", "16384", "0", "0", lock.SeverityOK},
		{"ok", "16384", "0", "5461", lock.SeverityWarning},
		{"ok", "16384", "5461", "0", lock.SeverityError},
		{"ok", "16383", "0", "0", lock.SeverityError},
		{"fail", "16384", "0", "0", lock.SeverityError},
	} {
		r := &report{}
		Server{}.checkCluster(r, &view{cluster: map[string]string{
			"cluster_state": row.state, "cluster_slots_assigned": row.assigned, "cluster_slots_fail": row.fail,
			"cluster_slots_pfail": row.pfail,
		}})
		if f := r.findings[0]; f.Check != ClusterState || f.Severity != row.want {
			t.Errorf("%+v: got %+v", row, f)
		}
	}
}
