package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// lockctl runs the tool with a server, to its end.
func lockctl(d *harness.Lockd, args ...string) *proctest.Process {
	p := startLockctl(d, args...)
	p.Code()
	return p
}

func startLockctl(d *harness.Lockd, args ...string) *proctest.Process {
	return d.Tool(lockctlBin, args...)
}

func TestLeasesOfShellsAreInRedis(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	lease := lockctl(d, "acquire", "job", "--lease", "1m").JSON()
	s := look(t, rc, "job")
	if len(s.fields) != 1 || s.fields[s.owner()] != "1" || s.pttl <= 50*time.Second || s.pttl > time.Minute {
		t.Errorf("got %v with PTTL %v", s.fields, s.pttl)
	}
	id := lease["lease_id"].(string)
	if strings.Contains(s.owner(), id) {
		t.Error("whoever can read Redis, or list locks, can release the lease")
	}
	if got, want := fmt.Sprintf("%.0f", lease["fence"]),
		rc.Get(t.Context(), "redisson_lock_token:{job}").Val(); got != want {
		t.Errorf("told fence %s, in Redis %s", got, want)
	}
	again := lockctl(d, "extend", "job", id, "--lease", "2m").JSON()
	if s := look(t, rc, "job"); again["fence"] != lease["fence"] || s.pttl <= 100*time.Second {
		t.Errorf("extended: %v, PTTL %v", again, s.pttl)
	}
	lockctl(d, "release", "job", id).Want(0, "")
	if found := keys(t, rc); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}

// What a Redisson program holds can be seen, watched and taken.
func TestLocksOfOthersAreSeenWatchedAndForced(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	rc, d := rs.Client(), startLockd(t, rs.Addr)
	takeAsRedisson(t, rc, "theirs", time.Minute)
	got := lockctl(d, "inspect", "theirs", "-o", "json").JSON()
	if ttl := got["ttl_ms"].(float64); got["held"] != true || got["holder"] != redisson || ttl <= 50_000 || ttl > 60_000 {
		t.Errorf("inspect: %v", got)
	}
	var list []map[string]any
	ours := mustLock(t, d.Dial(t, client.WithName("the test")), "ours")
	text := lockctl(d, "ls", "-o", "json").Stdout.String() // what only Redisson ever took is not found
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 ||
		list[0]["name"] != "ours" || list[0]["client"] != "the test" || list[0]["fence"] != float64(ours.Fence()) {
		t.Errorf("ls: %s (%v)", text, err)
	}
	mustUnlock(t, ours)

	w := startLockctl(d, "watch", "theirs", "-o", "json")
	harness.Until(t, "the name is watched", func() bool { return d.Metric("lockd_watched_names") == 1 })
	// Who watches later is not answered earlier.
	if _, err := d.Dial(t).Watch(t.Context(), "theirs"); err != nil {
		t.Fatal(err)
	}
	messages := hear(t, rc, "redisson_lock__channel:{theirs}")
	events := func(n int) func() bool {
		return func() bool { return strings.Count(w.Stdout.String(), `"unlocked"`) == n }
	}
	lockctl(d, "unlock", "theirs", "--force", "--reason", "stuck").Want(0, "unlocked theirs\n")
	if m := harness.Soon(t, "Redisson's waiters are woken", messages); m.text != "0" {
		t.Errorf("message %q", m.text)
	}
	harness.Until(t, "the watcher hears of the force", events(1))
	takeAsRedisson(t, rc, "theirs", 7*time.Second) // long enough to be seen, and nobody publishes its end
	harness.Until(t, "the watcher hears of the expiry", events(2))
	if found := keys(t, rc); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}

const redisson = "285475da-9152-4c83-822a-67ee2f116a79:52"

// takeAsRedisson does what RLock.lock does.
func takeAsRedisson(t *testing.T, rc *redis.Client, name string, ttl time.Duration) {
	t.Helper()
	_, err := rc.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.HSet(t.Context(), name, redisson, 1)
		p.PExpire(t.Context(), name, ttl)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// freeAsRedisson does what RLock.unlock does.
func freeAsRedisson(t *testing.T, rc *redis.Client, name string) {
	t.Helper()
	_, err := rc.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		p.Del(t.Context(), name)
		p.Publish(t.Context(), "redisson_lock__channel:{"+name+"}", 0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAWatchMissesNothingFromItsAnswerOn(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	c := d.Dial(t)
	for i := range 100 {
		name := fmt.Sprint("theirs ", i)
		takeAsRedisson(t, rc, name, time.Minute)
		events, err := c.Watch(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		freeAsRedisson(t, rc, name)
		harness.Soon(t, "the watcher is told", events)
	}
}

// A program on Redisson and one on lockd exclude and wake each other.
func TestAWaiterIsWokenByRedisson(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	c := d.Dial(t)
	takeAsRedisson(t, rc, "theirs", time.Minute)
	if _, err := c.TryLock(t.Context(), "theirs"); !errors.Is(err, client.ErrHeld) {
		t.Errorf("got %v, want it held", err)
	}
	granted := make(chan *client.Lock, 1)
	go func() { granted <- mustLock(t, c, "theirs") }()
	harness.Until(t, "it is listened to", func() bool {
		n := rc.PubSubNumSub(t.Context(), "redisson_lock__channel:{theirs}").Val()
		return n["redisson_lock__channel:{theirs}"] == 1
	})
	freeAsRedisson(t, rc, "theirs")
	began := time.Now()
	l := harness.Soon(t, "the waiter is granted", granted)
	if took := time.Since(began); took > 5*time.Second { // and not by the next look, 10 s later
		t.Errorf("woken after %v", took)
	}
	mustUnlock(t, l)
}
