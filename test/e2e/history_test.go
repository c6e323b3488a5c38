package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// whoHad is what lockctl history --at tells.
type whoHad struct {
	HeldBy []struct {
		Client, Annotation, Replica, Ended, Cause, By, Why string

		Since time.Time
		Until *time.Time
		Held  float64 `json:"held_ms"`
	} `json:"held_by"`
	Memories []struct {
		Replica string
		Gone    *time.Time
	}
	Replicas int
}

// had asks a replica who had a name at a time.
func had(t *testing.T, d *harness.Lockd, name string, at time.Time) (v whoHad) {
	t.Helper()
	p := whole(t, d, "history", name, "--at", at.Format(time.RFC3339Nano), "-o", "json")
	if err := json.Unmarshal([]byte(p.Stdout.String()), &v); err != nil {
		t.Fatalf("%v: %s%s", err, p.Stdout.String(), p.Stderr.String())
	}
	return v
}

// Who had a name is told as far as it is remembered, also after a replica was killed, and what is missing is said.
func TestWhoHadANameIsToldAfterAReplicaWasKilled(t *testing.T) {
	t.Parallel()
	masters := []*redistest.Server{redistest.Start(t)}
	ds := startReplicas(t, masters, 3)
	told := make(statuses, 100)
	mover := harness.Dial(t, ds[2].Addr+","+ds[0].Addr, told.option(), client.WithName("mover"))
	moved := mustLock(t, mover, "moved", client.Annotation("nightly"))
	recorded(t, masters, told.await(t, client.Connected).Session)
	mustUnlock(t, mustLock(t, harness.Dial(t, ds[2].Addr, client.WithName("gone")), "gone"))
	first := mustLock(t, harness.Dial(t, ds[1].Addr, client.WithName("first")), "job", client.Annotation("yearly"))
	var during time.Time
	harness.Until(t, "it is held for a while", func() bool { // what is told of a moment is as late as the answer
		during = time.Now()
		h := had(t, ds[0], "job", during).HeldBy
		return len(h) == 1 && h[0].Ended == "held" && during.Sub(h[0].Since) > time.Second
	})
	forced := lockctl(ds[0], "unlock", "job", "--force", "--reason", "it hangs")
	if forced.Code() != 0 {
		t.Fatalf("unlock: %s", forced.Stderr.String())
	}
	harness.Soon(t, "told of its loss", first.Context().Done())

	harness.Until(t, "the first replica has heard of all", func() bool {
		return len(had(t, ds[0], "job", during).Memories) == 3
	})
	ds[2].Kill()
	told.await(t, client.Connected)
	harness.Until(t, "Redis knows that it is gone", func() bool { return had(t, ds[0], "job", during).Replicas == 2 })

	v := had(t, ds[0], "job", during)
	if h := v.HeldBy; len(h) != 1 || h[0].Client != "first" || h[0].Annotation != "yearly" || h[0].Replica != "b" ||
		h[0].Ended != "lost" || h[0].Cause != "forced" || h[0].Why != "it hangs" || h[0].By == "" || h[0].Held < 1000 ||
		h[0].Since.After(during) || h[0].Until.Before(during) {
		t.Errorf("job: %+v", v)
	}
	if len(v.Memories) != 3 || v.Memories[0].Gone != nil || v.Memories[1].Gone != nil || v.Memories[2].Gone == nil ||
		v.Memories[2].Replica != "c" {
		t.Errorf("where it is remembered: %+v", v.Memories)
	}
	if h := had(t, ds[1], "moved", during).HeldBy; len(h) != 1 || h[0].Client != "mover" || h[0].Ended != "held" ||
		h[0].Annotation != "nightly" || h[0].Replica != "a" {
		t.Errorf("moved: %+v", h)
	}
	mustUnlock(t, moved)
	if h := had(t, ds[1], "moved", during).HeldBy; len(h) != 1 || h[0].Ended != "released" {
		t.Errorf("moved and released: %+v", h)
	}
	p := whole(t, ds[0], "history", "gone", "--at", during.Format(time.RFC3339Nano))
	if out := p.Stdout.String(); p.Code() != 1 || !strings.Contains(out, "nobody is known to have held this name at") ||
		!strings.Contains(out, "\nc is gone, and was heard of last at ") {
		t.Errorf("gone: %d %s%s", p.Code(), out, p.Stderr.String())
	}
}
