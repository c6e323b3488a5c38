package faultrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/faultrun/history"
	"github.com/lockd-io/lockd/test/harness"
)

// clients is how many play.
const clients = 16

// world are replicas of lockd on one store, with what can fail in it, and what clients saw of them.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	bin     string
	ttl     time.Duration // of sessions
	env     []string
	servers []*redistest.Server
	rules   rules
	faults  []trouble
	rec     *record

	replicas []*harness.Lockd
	fronts   []*redistest.Proxy // before replicas, where the network of clients fails
	at       []string           // the addresses for clients
	away     bool               // each client uses one of them: the replicas are elsewhere

	mu      sync.Mutex // guards the field below
	members []*member
}

// trouble is a kind of fault. do returns when it is over.
type trouble struct {
	what    string
	forgets bool // see fault
	spares  bool // nothing is excused because of it
	do      func()
}

// newWorld begins one, over a store.
func newWorld(t *testing.T, ttl time.Duration, over topology, env ...string) *world {
	t.Helper()
	t.Logf("seed %d", *seed)
	w := &world{
		t: t, rand: random(0), bin: lockdBin, ttl: ttl, rules: rules{lease: ttl + time.Second},
		env: append([]string{"LOCKD_SESSION_TTL=" + ttl.String()}, env...),
	}
	over(w)
	return w
}

// start starts so many replicas. They can be restarted.
func (w *world) start(n int) {
	w.t.Helper()
	for i := range n {
		env := append([]string{fmt.Sprint("LOCKD_REPLICA=replica-", i)}, w.env...)
		for _, name := range []string{"LOCKD_LISTEN", "LOCKD_OPS_LISTEN", "LOCKD_ADMIN_LISTEN"} {
			env = append(env, name+"="+proctest.FreeAddr(w.t))
		}
		d := harness.StartLockdOn(w.t, w.bin, env...)
		w.replicas, w.at = append(w.replicas, d), append(w.at, d.Addr)
	}
	w.rec = newRecord()
}

// restart has a replica stop as in a rolling update, and starts it again. It says how long the stop took.
func (w *world) restart(i int) (stop time.Duration, err error) {
	w.t.Helper()
	d, begun := w.replicas[i], time.Now()
	d.Signal(syscall.SIGTERM)
	if code := d.Code(); code != 0 {
		err = fmt.Errorf("replica %d ended with %d: %s", i, code, d.Stderr.String())
	}
	stop = time.Since(begun)
	d.Restart()
	return stop, err
}

func (w *world) killReplica() {
	d := w.replicas[w.rand.IntN(len(w.replicas))]
	d.Kill()
	w.sleep(0, 2*time.Second)
	d.Restart()
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

// pause stops servers for a while.
func (w *world) pause(servers ...*redistest.Server) {
	for _, s := range servers {
		s.Pause()
	}
	time.Sleep(w.lasts())
	for _, s := range servers {
		s.Resume()
	}
}

// killed kills a server, and restarts it after a while.
func (w *world) killed(s *redistest.Server, restart func(*redistest.Server)) {
	s.Kill()
	w.sleep(0, 2*time.Second)
	restart(s)
}

// watch has it be a fault when a server or a replica does not answer for longer than a call may take, until stop.
func (w *world) watch(servers []*redistest.Server) (stop func()) {
	const call = time.Second // as in the rules
	var all []func()
	for _, s := range servers {
		all = append(all, w.rec.watch("the server "+s.Addr, call, func() bool {
			return s.Client().Ping(w.t.Context()).Err() == nil
		}))
	}
	for _, d := range w.replicas {
		all = append(all, w.rec.watch("the replica "+d.Addr, call, func() bool {
			code, _ := d.Get("/healthz")
			return code == http.StatusOK
		}))
	}
	return func() {
		for _, stop := range all {
			stop()
		}
	}
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

// member is a client of the SDK.
type member struct {
	*client.Client
	*witness
}

// dial makes a client that tries the replica i first.
func (w *world) dial(id string, i int) *member {
	w.t.Helper()
	addrs := w.at[i%len(w.at):]
	if addrs = append(slices.Clone(addrs), w.at[:i%len(w.at)]...); w.away {
		addrs = addrs[:1]
	}
	return w.dialAt(id, addrs...)
}

func (w *world) dialAt(id string, addrs ...string) *member {
	w.t.Helper()
	m := &member{witness: &witness{id: id, rec: w.rec}}
	var err error
	m.Client, err = client.Dial(strings.Join(addrs, ","), client.WithName(id), client.WithOnStatus(m.told))
	harness.Must(w.t, err)
	w.t.Cleanup(func() { _ = m.Close() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = append(w.members, m)
	return m
}

func (w *world) all() []*member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.members)
}

// lock asks for a name, and records what becomes of that.
func (m *member) lock(ctx context.Context, name string, opts ...client.LockOption) (*held, error) {
	return m.take(name, func() (lock, error) { return granted(m.Lock(ctx, name, opts...)) })
}

// granted is a lock or none.
func granted(l *client.Lock, err error) (lock, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// moves is how often all clients together went on in another stream, and for how long each was on none, the quickest
// first.
func (w *world) moves() (took []time.Duration) {
	for _, m := range w.all() {
		for _, mv := range m.moves() {
			took = append(took, mv.to-mv.from)
		}
	}
	slices.Sort(took)
	return took
}

// howLong says how long moves from one stream to another took.
func howLong(took []time.Duration) string {
	if len(took) == 0 {
		return "no moves"
	}
	at := func(part int) time.Duration { return took[(len(took)-1)*part/100].Round(time.Millisecond) }
	return fmt.Sprintf("%d moves, half of them within %v, 90 %% within %v, 99 %% within %v, all within %v", len(took),
		at(50), at(90), at(99), at(100))
}

// players use a few names at random. Where much fails, some have short leases, and some a network that breaks.
func (w *world) players(muchFails bool) (all []*player) {
	for i := range clients {
		p := &player{
			rand: random(uint64(i + 1)), holds: 10 * time.Millisecond, waits: 2 * time.Second, late: 10,
			names: []string{"job 0", "job 1", "job 2", "job 3"},
		}
		var m *member
		switch id := fmt.Sprint("client ", i); {
		case muchFails && i%4 == 2:
			link := redistest.StartProxy(w.t, w.replicas[i/4%2].Addr)
			m, p.cut = w.dialAt(id, link.Addr), link.CutAll
		case muchFails && i%4 == 1:
			p.leases = 1700 * time.Millisecond
			fallthrough
		default:
			m = w.dial(id, i)
		}
		p.witness, p.locks = m.witness, sdk{m.Client}
		all = append(all, p)
	}
	return all
}

// play has players use locks while things fail for so long. Afterwards all are served within a bound.
func (w *world) play(players []*player, lasts, served time.Duration) {
	w.t.Helper()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("again: go test ./test/faultrun -run '%s' -seed %d -length %v", w.t.Name(), *seed, *length)
		}
	})
	crowd, failed := begin(w.t.Context(), players), map[string]int{}
	for w.rec.now() < lasts {
		w.sleep(0, time.Second)
		f := w.faults[w.rand.IntN(len(w.faults))]
		if testing.Verbose() {
			w.t.Logf("after %v: %s", w.rec.now(), f.what)
		}
		if f.spares {
			f.do()
		} else {
			w.rec.during(fault{what: f.what, forgets: f.forgets}, f.do)
		}
		failed[f.what]++
	}
	w.t.Logf("what failed: %v", failed)
	quiet := w.rec.now()
	if err := crowd.end(served); err != nil {
		w.t.Errorf("after the last fault: %v", err)
	}
	w.t.Logf("all were served %v after the last fault", w.rec.now()-quiet)
}

// searched is how many steps a search has for each name. It either decides soon, or has far too much to try.
const searched = 500_000

// check looks at what all clients saw. Who holds something still is not asked: what is checked was released.
func (w *world) check() error {
	w.t.Helper()
	v := w.rec.check(w.rules)
	confirmed, err := history.Confirm(v.events, searched)
	w.t.Logf("the history of %d events was decided in %v; a search says the same of %d names", len(v.events), v.decided,
		confirmed)
	if v.forgotten > 0 {
		w.t.Logf("the store forgot %d holds while others were granted the name, for %v at most", v.forgotten, v.longest)
	}
	ends := map[string]int{}
	for _, h := range w.rec.holds {
		ends[h.how.String()]++
	}
	w.t.Logf("%d holds in %v, kept %d times over resumes: %v, %d requests without one", len(w.rec.holds), w.rec.now(),
		v.kept, ends, len(w.rec.others))
	if err = errors.Join(v.err(), err); err != nil {
		w.keep(v.events)
	}
	return err
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

// must takes the outcomes of checks.
func (w *world) must(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Error(err)
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
