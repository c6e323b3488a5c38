package faultrun

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/faultrun/history"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	ttl     = 3 * time.Second // of sessions, and the longest lease
	clients = 16
	// window is how long after a fault in which a store forgot holds, and after it serves again, the holders may
	// believe in them: they are renewed each second, which may take an attempt or two of a second.
	window = ttl
	// servedWithin is how long somebody may wait after the last fault: until the leases end of which nobody knows, and
	// until a client has tried all replicas.
	servedWithin = 3 * ttl
	// leftovers is how many goroutines of a replica may be left beyond those of its start: of connections to Redis.
	leftovers = 40
)

// world is a topology with what can fail in it.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	env     []string // of lockd, for its store
	servers []*redistest.Server
	rules   rules
	faults  []trouble

	replicas []*harness.Lockd
	fronts   []*redistest.Proxy // before replicas
	rec      *record
}

// trouble is a kind of fault. do returns when it is over.
type trouble struct {
	what    string
	forgets bool // see fault
	do      func()
}

// lasts is how long a fault lasts: in a long run it is longer.
func (w *world) lasts() time.Duration {
	if *length >= long {
		return w.between(time.Second, 20*time.Second)
	}
	return w.between(300*time.Millisecond, 2*time.Second)
}

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.rand.Int64N(int64(to-from)))
}

func (w *world) sleep(from, to time.Duration) { time.Sleep(w.between(from, to)) }

// newWorld begins one. The topology fills in the rest.
func newWorld(t *testing.T) *world {
	if *length == 0 {
		t.Skip("takes a while: make test-faults, or -length 10s")
	}
	t.Helper()
	t.Parallel()
	t.Logf("seed %d", *seed)
	return &world{t: t, rand: random(0), rules: rules{lease: ttl + time.Second, window: window}}
}

// startReplicas runs two, each behind a proxy.
func (w *world) startReplicas() {
	w.t.Helper()
	for range 2 {
		d := harness.StartLockdOn(w.t, lockdBin, w.environment(proctest.FreeAddr(w.t))...)
		w.replicas = append(w.replicas, d)
		w.fronts = append(w.fronts, redistest.StartProxy(w.t, d.Addr))
	}
	w.faults = append(w.faults, trouble{what: "a replica of lockd is killed", do: w.killReplica},
		trouble{what: "the network of clients fails", do: func() { w.spoil(w.fronts[w.rand.IntN(len(w.fronts))]) }})
}

func (w *world) environment(listen string) []string {
	return append([]string{"LOCKD_LISTEN=" + listen, "LOCKD_SESSION_TTL=" + ttl.String()}, w.env...)
}

func (w *world) killReplica() {
	i := w.rand.IntN(len(w.replicas))
	old := w.replicas[i]
	old.Kill()
	w.sleep(0, 2*time.Second)
	w.replicas[i] = harness.StartLockdOn(w.t, lockdBin, w.environment(old.Addr)...)
}

// spoil has a network be slow, lose connections, or lose one direction, for a while.
func (w *world) spoil(ps ...*redistest.Proxy) {
	how, end := w.rand.IntN(4), time.Now().Add(min(w.lasts(), 5*time.Second))
	for _, p := range ps {
		switch how {
		case 0:
			p.Delay(w.between(20*time.Millisecond, 600*time.Millisecond))
		case 1:
			p.Set(redistest.Stall)
		case 2:
			p.Set(redistest.Deaf)
		}
	}
	for how == 3 && time.Now().Before(end) {
		for _, p := range ps {
			p.Set(redistest.Cut)
		}
		w.sleep(time.Millisecond, 50*time.Millisecond)
		for _, p := range ps {
			p.Set(redistest.Pass)
		}
		w.sleep(time.Millisecond, 300*time.Millisecond)
	}
	time.Sleep(time.Until(end))
	for _, p := range ps {
		p.Delay(0)
		p.Set(redistest.Pass)
		if how != 0 {
			p.CutAll()
		}
	}
}

// pause stops a server for a while.
func (w *world) pause(s *redistest.Server) {
	s.Pause()
	time.Sleep(w.lasts())
	s.Resume()
}

// flushScripts has all servers that answer forget the scripts.
func (w *world) flushScripts() {
	for _, s := range w.servers {
		if s.Answers() {
			if err := s.Client().ScriptFlush(w.t.Context()).Err(); err != nil && !strings.Contains(err.Error(), "READONLY") {
				w.t.Error(err)
			}
		}
	}
}

// run has clients use locks while things fail, and checks what they saw.
func (w *world) run() {
	w.t.Helper()
	w.startReplicas()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("again: go test ./test/faultrun -run %s -seed %d -length %v", w.t.Name(), *seed, *length)
		}
	})
	w.rec = newRecord()
	calm := w.goroutines()
	players := w.players()
	crowd := begin(w.t.Context(), players)
	for w.rec.now() < *length {
		w.sleep(100*time.Millisecond, time.Second)
		f := w.faults[w.rand.IntN(len(w.faults))]
		if testing.Verbose() {
			w.t.Logf("after %v: %s", w.rec.now(), f.what)
		}
		w.rec.during(fault{what: f.what, forgets: f.forgets}, f.do)
	}
	w.logFaults()
	quiet := w.rec.now()
	if err := crowd.end(servedWithin); err != nil {
		w.t.Errorf("after the last fault: %v", err)
	}
	w.t.Logf("all were served %v after the last fault", w.rec.now()-quiet)
	for _, p := range players {
		_ = p.locks.(sdk).Close()
	}
	w.judge()
	w.settle(calm)
}

func (w *world) players() []*player {
	var addrs []string
	for _, p := range w.fronts {
		addrs = append(addrs, p.Addr)
	}
	var players []*player
	for i := range clients {
		p := &player{
			id: fmt.Sprint("client ", i), rand: random(uint64(i + 1)), rec: w.rec, holds: 10 * time.Millisecond,
			waits: 2 * time.Second, late: 10,
			names: []string{"job 0", "job 1", "job 2", "job 3"},
		}
		if i%4 == 1 {
			p.leases = 1700 * time.Millisecond
		}
		own := []string{addrs[i%2], addrs[1-i%2]}
		if i%4 == 2 {
			proxy := redistest.StartProxy(w.t, w.replicas[i/4%2].Addr)
			own, p.cut = []string{proxy.Addr}, proxy.CutAll
		}
		m := &member{id: p.id, rec: w.rec}
		var err error
		if m.Client, err = client.Dial(strings.Join(own, ","), client.WithOnStatus(m.told)); err != nil {
			w.t.Fatal(err)
		}
		p.locks = sdk{m}
		players = append(players, p)
	}
	return players
}

func (w *world) logFaults() {
	count := map[string]int{}
	for _, f := range w.rec.faults {
		count[f.what]++
	}
	w.t.Logf("what failed: %v", count)
}

// searched is how many steps a search has for each name. It either decides soon, or has far too much to try.
const searched = 500_000

func (w *world) judge() {
	w.t.Helper()
	v := w.rec.check(w.rules)
	if err := v.err(); err != nil {
		w.t.Error(err)
		w.keep(v.events)
	}
	confirmed, err := history.Confirm(v.events, searched)
	if err != nil {
		w.t.Error(err)
	}
	w.t.Logf("the history of %d events was decided in %v; a search says the same of %d names", len(v.events), v.decided,
		confirmed)
	if v.forgotten > 0 {
		w.t.Logf("the store forgot %d holds while others were granted the name, for %v at most", v.forgotten, v.longest)
	}
	ends := map[string]int{}
	for _, h := range w.rec.holds {
		ends[h.how.String()]++
	}
	w.t.Logf("%d holds in %v: %v, %d requests without one", len(w.rec.holds), w.rec.now(), ends, len(w.rec.others))
	if len(w.rec.holds) < 100 {
		w.t.Error("too little happened for this run to mean anything")
	}
}

// keep writes the events of a run that failed to a file: the same seed does not make the same history again.
func (w *world) keep(events []history.Event) {
	w.t.Helper()
	text := fmt.Sprintf("%+v\n", w.rec.faults)
	slices.SortFunc(events, func(a, b history.Event) int { return cmp.Compare(a.From, b.From) })
	for _, e := range events {
		text += fmt.Sprintln(e)
	}
	file := filepath.Join(w.t.ArtifactDir(), "history.txt")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Error(err)
	}
	w.t.Logf("the history is in %s, if -artifacts was given", file)
}

func (w *world) goroutines() []float64 {
	var n []float64
	for _, d := range w.replicas {
		n = append(n, d.Metric("go_goroutines"))
	}
	return n
}

// settle waits until nobody knows of any client any more.
func (w *world) settle(calm []float64) {
	w.t.Helper()
	begun := time.Now()
	var left string
	for end := begun.Add(3*ttl + 10*time.Second); ; time.Sleep(50 * time.Millisecond) {
		if left = w.left(calm); left == "" {
			w.t.Logf("all clean after %v", time.Since(begun))
			return
		}
		if time.Now().After(end) {
			w.t.Errorf("left after %v: %s", time.Since(begun), left)
			return
		}
	}
}

// sum is a metric, for all labels together.
func sum(d *harness.Lockd, name string) (total float64) {
	_, body := d.Get("/metrics")
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if ok && strings.ContainsAny(rest[:1], "{ ") {
			var n float64
			_, _ = fmt.Sscan(rest[strings.LastIndex(rest, " "):], &n) // 0 if it is none
			total += n
		}
	}
	return total
}

// left is what somebody still knows of clients.
func (w *world) left(calm []float64) string {
	for i, d := range w.replicas {
		for _, m := range []string{
			"lockd_sessions", "lockd_streams", "lockd_waiters", "lockd_watched_names",
			"lockd_locks_held",
		} {
			if n := sum(d, m); n != 0 {
				return fmt.Sprintf("%s of replica %d is %v", m, i, n)
			}
		}
		if n := d.Metric("go_goroutines"); n > calm[i]+leftovers {
			return fmt.Sprintf("%v goroutines of replica %d, and %v at its start", n, i, calm[i])
		}
	}
	for _, s := range w.servers {
		rc := s.Client()
		keys, err := rc.Keys(w.t.Context(), "*").Result()
		if err != nil {
			return err.Error()
		}
		keys = slices.DeleteFunc(keys, func(k string) bool {
			return strings.HasPrefix(k, "redisson_lock_token:{") || strings.HasPrefix(k, "lockd:")
		})
		channels, err := rc.PubSubChannels(w.t.Context(), "redisson*").Result()
		if err != nil || len(keys)+len(channels) > 0 {
			return fmt.Sprintf("in %s the keys %q and channels %q, %v", s.Addr, keys, channels, err)
		}
	}
	return ""
}
