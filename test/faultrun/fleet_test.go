package faultrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/faultrun/history"
	"github.com/lockd-io/lockd/test/harness"
)

// fleet are three replicas of lockd on one store, and what their clients saw.
type fleet struct {
	t        *testing.T
	bin      string
	env      []string
	ttl      time.Duration // of sessions
	rules    rules
	rec      *record
	replicas [3]*harness.Lockd
	listens  [3][3]string // where they listen
	at       [3]string    // the addresses for clients
	away     []string     // if the replicas are elsewhere, the addresses for clients: each uses one

	mu      sync.Mutex // guards the field below
	members []*member
}

// store is where a fleet keeps leases.
type store struct {
	name  string
	fair  bool // it has fair locks
	start func(t *testing.T) (env []string)
}

var (
	oneRedis = store{name: "one Redis", fair: true, start: func(t *testing.T) []string {
		return []string{"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + redistest.Start(t).Addr}
	}}
	threeMasters = store{name: "a majority of three", start: func(t *testing.T) []string {
		return []string{
			"LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS=" +
				strings.Join(redistest.Addrs(redistest.StartMasters(t, 3)), ","),
		}
	}}
)

// onEachStore runs a test with a fleet on each, side by side.
func onEachStore(t *testing.T, ttl time.Duration, test func(f *fleet, s store)) {
	t.Parallel()
	for _, s := range []store{oneRedis, threeMasters} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(newFleet(t, lockdBin, s, ttl), s)
		})
	}
}

// newFleet starts three replicas. That they hand their sessions over is proven in test/e2e and in virtual time, too; a
// fleet under load keeps more processors busy than the first tier has.
func newFleet(t *testing.T, bin string, s store, ttl time.Duration) *fleet {
	t.Helper()
	tier.Long(t)
	f := &fleet{
		t: t, bin: bin, ttl: ttl, rec: newRecord(),
		env: append([]string{ // how fast the machine is does not matter here
			"LOCKD_SESSION_TTL=" + ttl.String(), "LOCKD_REDIS_OP_TIMEOUT=5s", "LOCKD_SESSION_MIN_TTL=5s",
			"LOCKD_REDLOCK_NODE_TIMEOUT=2s",
		}, s.start(t)...),
		rules: rules{lease: ttl + time.Second, votes: !s.fair},
	}
	for i := range f.replicas {
		f.start(i)
	}
	return f
}

// start starts a replica, at the addresses that it had before.
func (f *fleet) start(i int) {
	f.t.Helper()
	env := append([]string{fmt.Sprint("LOCKD_REPLICA=replica-", i)}, f.env...)
	for k, name := range []string{"LOCKD_LISTEN", "LOCKD_OPS_LISTEN", "LOCKD_ADMIN_LISTEN"} {
		if f.listens[i][k] == "" {
			f.listens[i][k] = proctest.FreeAddr(f.t)
		}
		env = append(env, name+"="+f.listens[i][k])
	}
	f.replicas[i] = harness.StartLockdOn(f.t, f.bin, env...)
	if f.at[i] == "" {
		f.at[i] = f.replicas[i].Addr
	}
}

// restart has a replica stop as in a rolling update, and starts it again. It says how long the stop took.
func (f *fleet) restart(i int) (stop time.Duration, err error) {
	f.t.Helper()
	begun := time.Now()
	f.replicas[i].Signal(syscall.SIGTERM)
	if code := f.replicas[i].Code(); code != 0 {
		err = fmt.Errorf("replica %d ended with %d: %s", i, code, f.replicas[i].Stderr.String())
	}
	stop = time.Since(begun)
	f.start(i)
	return stop, err
}

// addrs are the addresses of all, beginning with that of one.
func (f *fleet) addrs(first int) string {
	if len(f.away) > 0 {
		return f.away[first%len(f.away)]
	}
	var all []string
	for i := range f.at {
		all = append(all, f.at[(first+i)%len(f.at)])
	}
	return strings.Join(all, ",")
}

// dial makes a client that tries the replica i first.
func (f *fleet) dial(id string, i int) *member {
	f.t.Helper()
	m := &member{id: id, rec: f.rec}
	var err error
	if m.Client, err = client.Dial(f.addrs(i), client.WithName(id), client.WithOnStatus(m.told)); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = m.Close() })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, m)
	return m
}

// judge checks what all clients saw. Who holds something still is not asked: what is judged was released.
func (f *fleet) judge() *verdict {
	f.t.Helper()
	v := f.rec.check(f.rules)
	f.t.Logf("%d holds, kept %d times over resumes, %d requests without one", len(f.rec.holds), v.kept, len(f.rec.others))
	return v
}

// moves is how often all clients together went on in another stream, and for how long the slowest was on none.
func (f *fleet) moves() (n int, longest time.Duration) {
	for _, m := range f.all() {
		for _, mv := range m.moves() {
			n++
			longest = max(longest, mv.to-mv.from)
		}
	}
	return n, longest
}

func (f *fleet) all() []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*member(nil), f.members...)
}

// member is a client of a fleet, with what it was told of its streams.
type member struct {
	*client.Client
	id  string
	rec *record

	cuts, ends atomic.Int64 // streams that broke, sessions that ended

	mu   sync.Mutex    // guards the fields below
	left time.Duration // since when it is to be in another stream; 0 if it is in one
	done []move
	why  []string // sessions ended
}

// move is one from a stream to another.
type move struct{ from, to time.Duration }

// told is called by the Client.
func (m *member) told(s client.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case s.State == client.Disconnected:
		m.ends.Add(1)
		m.why = append(m.why, fmt.Sprintf("at %v, without a stream since %v: %v", m.rec.now(), m.left, s.Err))
		m.left = 0
	case s.State == client.Interrupted:
		m.cuts.Add(1)
		m.left = cmp.Or(m.left, m.rec.now())
	case s.State == client.Draining:
		m.left = cmp.Or(m.left, m.rec.now())
	case s.State == client.Connected && m.left != 0:
		m.done = append(m.done, move{m.left, m.rec.now()})
		m.left = 0
	}
}

// ended says why sessions ended.
func (m *member) ended() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.why...)
}

func (m *member) moves() []move {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]move(nil), m.done...)
}

// moved says whether it has gone on in another stream since a time, and is to leave none.
func (m *member) moved(since time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left == 0 && len(m.done) > 0 && m.done[len(m.done)-1].to > since
}

// held is a lock of a member.
type held struct {
	*client.Lock
	of *member
	h  hold
}

// take asks for a name, and records what becomes of that.
func (m *member) take(ctx context.Context, name string, opts ...client.LockOption) (*held, error) {
	return m.takeBy(name, func() (*client.Lock, error) { return m.Lock(ctx, name, opts...) })
}

// try is take without waiting.
func (m *member) try(ctx context.Context, name string, opts ...client.LockOption) (*held, error) {
	return m.takeBy(name, func() (*client.Lock, error) { return m.TryLock(ctx, name, opts...) })
}

func (m *member) takeBy(name string, ask func() (*client.Lock, error)) (*held, error) {
	h := hold{client: m.id, name: name, asked: m.rec.now()}
	l, err := ask()
	h.got = m.rec.now()
	if err != nil {
		e := history.Event{Client: m.id, Name: name, What: history.MaybeGranted, From: h.asked, To: h.got}
		if errors.Is(err, client.ErrHeld) {
			e.What = history.Refused
		}
		m.rec.other(e)
		return nil, err
	}
	h.fence, h.sure = l.Fence(), h.asked
	return &held{l, m, h}, nil
}

// give ends a hold and records it. Of a shared kind nothing is recorded: others may hold it, too.
func (h *held) give(ctx context.Context) error {
	if now := h.of.rec.now(); h.Err() == nil {
		h.h.sure = now
	}
	err := h.Unlock(ctx)
	h.h.how, h.h.ended = howEnded(err), max(h.of.rec.now(), h.h.sure)
	if h.Kind() != client.Read && h.Kind() != client.Semaphore {
		h.h.kept = h.of.moves()
		h.of.rec.hold(h.h)
	}
	return err
}
