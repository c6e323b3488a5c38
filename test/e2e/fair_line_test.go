package e2e

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

// line is a fair lock and those who wait for it: a few clients of each replica, each with a lot of requests. Who has
// the lock gives it back at once, unless keep says otherwise.
type line struct {
	t       *testing.T
	rc      *redis.Client
	clients []*lineClient // of one replica after the other, and so on again
	told    chan ticket
	waiters []ticket // by position

	mu    sync.Mutex      // guards the fields below
	keep  func(turn) bool // called with mu held
	turns []turn
	lost  map[int]error // replicas whose streams broke
	over  bool
}

// lineName is the name of the lock.
const lineName = "hot"

// lineClient is a client with many requests. The stream is read by one goroutine.
type lineClient struct {
	*stream
	l       *line
	replica int
	lastID  uint64 // of its requests

	sending sync.Mutex // one at a time may send
}

// ticket is a request that was told how many wait before it.
type ticket struct {
	c        *lineClient
	id       uint64
	position int
}

// turn is a grant.
type turn struct {
	c     *lineClient
	id    uint64
	fence uint64
	hold  *lockdv1.Hold
	at    time.Time
}

// newLine opens some sessions on each replica and lets the first have the lock.
func newLine(t *testing.T, rc *redis.Client, sessions int, ttl time.Duration, ds ...*harness.Lockd) *line {
	t.Helper()
	l := &line{t: t, rc: rc, told: make(chan ticket, 100_000), lost: make(map[int]error)}
	l.keep = func(turn) bool { return true }
	for range sessions {
		for i, d := range ds {
			o := &lockdv1.Open{
				SessionTtl: seconds(ttl.Seconds()), Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH},
			}
			l.clients = append(l.clients, &lineClient{stream: open(t, d.Connect(t), o), l: l, replica: i})
		}
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, c := range l.clients {
		wg.Go(c.read)
	}
	wg.Go(func() { l.beat(ttl/4, stop) })
	t.Cleanup(func() {
		l.mu.Lock()
		l.over = true
		l.mu.Unlock()
		close(stop)
		for _, c := range l.clients {
			c.cancel()
		}
		wg.Wait()
	})
	l.clients[0].ask(1)
	harness.Until(t, "the first has the lock", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.turns) == 1
	})
	return l
}

// beat keeps the sessions alive.
func (l *line) beat(every time.Duration, stop chan struct{}) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for id := uint64(1); ; id++ {
		for _, c := range l.clients {
			c.say(heartbeat(id))
		}
		select {
		case <-ticker.C:
		case <-stop:
			return
		}
	}
}

// say sends a message. If the stream is broken its reader tells.
func (c *lineClient) say(m *lockdv1.SessionRequest) {
	c.sending.Lock()
	defer c.sending.Unlock()
	_ = c.Send(m)
}

// ask makes some requests at once and returns the id of the first.
func (c *lineClient) ask(n int) (first uint64) {
	first = c.lastID + 1
	for range n {
		c.lastID++
		c.say(acquire(c.lastID, &lockdv1.Acquire{Name: lineName, Kind: lockdv1.LockKind_LOCK_KIND_FAIR}))
	}
	return first
}

// giveBack releases a hold. Its id is greater than those of all requests, of which a session has no more.
func (c *lineClient) giveBack(g turn) { c.say(release(g.id+10_000, g.hold)) }

func (c *lineClient) read() {
	for {
		m, err := c.Recv()
		if err != nil {
			c.l.broke(c, err)
			return
		}
		for _, m := range messages(m) {
			c.hear(m)
		}
	}
}

// messages are those of a batch, or the one.
func messages(m *lockdv1.SessionResponse) []*lockdv1.SessionResponse {
	if b := m.GetBatch(); b != nil {
		return b.GetResponses()
	}
	return []*lockdv1.SessionResponse{m}
}

func (c *lineClient) hear(m *lockdv1.SessionResponse) {
	switch {
	case m.GetQueued() != nil:
		c.l.told <- ticket{c, m.GetRequestId(), int(m.GetQueued().GetPosition())}
	case m.GetGranted() != nil:
		hold := m.GetGranted().GetHolds()[0]
		g := turn{c, m.GetRequestId(), hold.GetFence(), hold, time.Now()}
		if !c.l.enter(g) {
			c.giveBack(g)
		}
	case m.GetReleased() != nil, m.GetHeartbeatAck() != nil:
	default:
		c.l.t.Errorf("a client of replica %d got %v", c.replica, m)
	}
}

// enter notes a turn and says whether it is kept.
func (l *line) enter(g turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, g)
	return l.keep(g)
}

func (l *line) broke(c *lineClient, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.lost[c.replica] = err
	}
}

// arriveAlone lets n more wait, one after the other and each on another replica: the next one comes when the one before
// was told its position.
func (l *line) arriveAlone(n int) {
	l.t.Helper()
	for i := range n {
		c := l.clients[i%len(l.clients)]
		want := ticket{c, c.ask(1), len(l.waiters)}
		if got := harness.Soon(l.t, "the position of a waiter", l.told); got != want {
			l.t.Fatalf("%v was told its position, want %v", got, want)
		}
		l.waiters = append(l.waiters, want)
	}
}

// arriveTogether lets n more wait, about as many for each client, and all at once. Their order is what they are told,
// and for each client the one in which it asked.
func (l *line) arriveTogether(n int) {
	l.t.Helper()
	next := make(map[*lineClient]uint64)
	for _, c := range l.clients {
		next[c] = c.lastID + 1
	}
	var wg sync.WaitGroup
	for i, c := range l.clients {
		wg.Go(func() { c.ask((n + i) / len(l.clients)) })
	}
	wg.Wait()
	came := make([]ticket, n)
	for i := range came {
		came[i] = harness.Soon(l.t, "the position of a waiter", l.told)
	}
	slices.SortFunc(came, func(a, b ticket) int { return cmp.Compare(a.position, b.position) })
	for _, got := range came {
		want := ticket{got.c, next[got.c], len(l.waiters)}
		if got != want {
			l.t.Fatalf("%v was told its position, want %v", got, want)
		}
		next[got.c]++
		l.waiters = append(l.waiters, got)
	}
}

func (w ticket) String() string {
	return fmt.Sprintf("request %d of replica %d, as number %d", w.id, w.c.replica, w.position)
}

// start lets the line move. From now on keep says who keeps the lock.
func (l *line) start(keep func(turn) bool) {
	l.mu.Lock()
	l.keep = keep
	first := l.turns[0]
	l.mu.Unlock()
	first.c.giveBack(first)
}

// finish waits until these had their turns, in this order, and nobody else, and returns the turns.
func (l *line) finish(waiters []ticket) []turn {
	l.t.Helper()
	for last := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		turns := l.granted()
		if len(turns) >= len(waiters) {
			break
		}
		if len(turns) > 0 {
			last = turns[len(turns)-1].at
		}
		if time.Since(last) > patience {
			l.t.Fatalf("nobody had a turn for %v, after %d of %d turns", patience, len(turns), len(waiters))
		}
	}
	harness.Until(l.t, "nothing is left in Redis", func() bool { return len(keys(l.t, l.rc)) == 0 })
	turns := l.granted()
	if len(turns) != len(waiters) {
		l.t.Fatalf("%d turns for %d waiters", len(turns), len(waiters))
	}
	var fence uint64
	for i, g := range turns {
		if w := waiters[i]; g.c != w.c || g.id != w.id {
			l.t.Fatalf("turn %d was that of request %d of replica %d, want %v", i, g.id, g.c.replica, w)
		}
		if g.fence <= fence {
			l.t.Fatalf("turn %d has fence %d after %d", i, g.fence, fence)
		}
		fence = g.fence
	}
	return turns
}

// granted are the turns so far, without that of the first.
func (l *line) granted() []turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.turns[1:])
}

// onlyLost checks that the streams of one replica broke and those of no other.
func (l *line) onlyLost(replica int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, err := range l.lost {
		if i != replica {
			l.t.Errorf("a stream of replica %d broke: %v", i, err)
		}
	}
	if l.lost[replica] == nil {
		l.t.Errorf("no stream of replica %d broke", replica)
	}
}
