package broker_test

import (
	"context"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/tier"
)

// Clients of two replicas want the same few names in all ways at once, and operators free names by force and end
// sessions. The store is well. So each request has one answer in its time, a try is not refused what an operator was
// told to be free, and in the end nothing is left.

// siegeTime is how long a siege lasts, in the bubble.
var siegeTime = tier.Pick(10*time.Second, 20*time.Second)

const (
	siegeNames = 5
	// siegeSlack is how much too late a client may look at an answer: it looks only now and then.
	siegeSlack = 200 * time.Millisecond
)

// siege is the two replicas, and what is known of them.
type siege struct {
	at     []*world
	ground *ground
	over   chan struct{}
	wg     sync.WaitGroup

	mu      sync.Mutex       // guards the fields below
	open    []map[string]int // at each replica, how many requests for a name are not answered
	clients map[string]bool  // ids of sessions
	wrong   []string
	judged  int // tries for names that were told to be free
	forced  int
	grants  int
	refused int
}

// ground is the store of both replicas. It knows since when each name is free, as somebody was told.
type ground struct {
	lock.Store
	way time.Duration // to the store

	mu   sync.Mutex     // held while something is taken
	free map[string]int // names that were told to be free, and when; nothing was taken since
	last int
}

func (g *ground) took(names ...string) {
	for _, n := range names {
		delete(g.free, n)
	}
}

func (g *ground) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	go func() {
		g.mu.Lock()
		got, err := lock.Await(context.Background(), g.Store.StartAcquire, c)
		if err == nil {
			g.took(c.Name)
		}
		g.mu.Unlock()
		done(got, err)
	}()
}

func (g *ground) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, err := g.Store.AcquireAll(ctx, cs)
	for _, c := range cs {
		if err == nil {
			g.took(c.Name)
		}
	}
	return got, err
}

func (g *ground) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	go func() {
		g.mu.Lock()
		res, err := lock.Await(context.Background(), g.Store.StartRelease, r)
		if res.HandedOver != 0 {
			g.took(r.Name)
		}
		g.mu.Unlock()
		done(res, err)
	}()
}

func (g *ground) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	time.Sleep(g.way)
	freed, err := g.Store.ForceRelease(ctx, name, k)
	time.Sleep(g.way)
	return freed, err
}

// told notes that somebody was told that a name is free, if it is.
func (g *ground) told(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if st, err := g.Store.Look(context.Background(), name); err == nil && !st.Held && g.free[name] == 0 {
		g.last++
		g.free[name] = g.last
	}
}

// since says since when a name is free, 0 if that is not known, or somebody waits in line for it.
func (g *ground) since(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if line, err := g.Store.Queue(context.Background(), name, 1); err != nil || len(line) > 0 {
		return 0
	}
	return g.free[name]
}

func TestNobodyIsRefusedWhatWasFreedByForce(t *testing.T) {
	judged := 0
	for _, seed := range seeds(1, 2, 3, 4, 5, 6, 7, 8) {
		for _, way := range []time.Duration{0, 5 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprint("seed ", seed, " way ", way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { judged += besiege(t, seed, way) })
			})
		}
	}
	if judged < 3 { // a single run may have none
		t.Error("this shows nothing of what was freed by force")
	}
}

// besiege says how many tries for names that were told to be free it judged.
func besiege(t *testing.T, seed uint64, way time.Duration) (judged int) {
	defer time.AfterFunc(time.Hour, func() { // in the bubble, where time would pass for ever
		debug.SetTraceback("all")
		panic("the siege does not end")
	}).Stop()
	s := &siege{
		over: make(chan struct{}), clients: make(map[string]bool),
		ground: &ground{Store: memstore.New(), way: way, free: make(map[string]int)},
	}
	rng := func(n int) *mrand.Rand { return mrand.New(mrand.NewPCG(seed, uint64(n))) } //nolint:gosec // a test
	for i := range 2 {
		store, after := &faults{Store: s.ground}, rng(50+i)
		var mu sync.Mutex
		store.inOrder("", func(c call) error {
			time.Sleep(way)
			err := c.do()
			mu.Lock()
			d := way + time.Duration(after.Int64N(int64(way)+1))
			mu.Unlock()
			time.Sleep(d)
			return err
		})
		s.at = append(s.at, startOn(t, testConfig(), forcible{store, s.ground}))
		s.open = append(s.open, make(map[string]int))
		s.wg.Go(func() { s.beDeaf(rng(300+i), store) })
	}
	for i := range 8 {
		s.wg.Go(func() { (&besieger{s: s, rng: rng(10 + i), unread: i == 0}).live() })
	}
	for i := range 2 {
		s.wg.Go(func() { s.beOperator(rng(100 + i)) })
		s.wg.Go(func() { s.beUnary(rng(200+i), s.at[i]) })
	}
	time.Sleep(siegeTime)
	close(s.over)
	s.wg.Wait()
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	for i, w := range s.at {
		if r := w.b.Residue() + w.b.Doubts(); r != "" {
			s.complain("replica %d keeps %s", i, r)
		}
		for _, m := range []string{"lockd_waiters", "lockd_locks_held"} {
			if n := w.metric(m); n != 0 {
				s.complain("replica %d counts %v %s", i, n, m)
			}
		}
	}
	if held, _, err := s.ground.List(t.Context(), "", "", 100); err != nil || len(held) > 0 {
		s.complain("left in the store: %+v, %v", held, err)
	}
	for _, w := range s.wrong[:min(len(s.wrong), 3)] {
		t.Error(w)
	}
	t.Logf("%d grants, %d refusals, %d forced, %d judged", s.grants, s.refused, s.forced, s.judged)
	if s.grants < 100 || s.forced < 10 {
		t.Error("this shows nothing")
	}
	return s.judged
}

// forcible is a store in which names are freed by force while its other calls are under way.
type forcible struct {
	*faults
	ground *ground
}

func (f forcible) ForceRelease(ctx context.Context, name string, k lock.Kind) (bool, error) {
	return f.ground.ForceRelease(ctx, name, k)
}

func (s *siege) complain(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprint(time.Now().Format(clock), " ", fmt.Sprintf(format, a...)))
}

func (s *siege) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// item is one of the names, as it is locked.
func (s *siege) item(rng *mrand.Rand) request.Item {
	i := rng.IntN(siegeNames)
	item := request.Item{Name: name(i), Kind: lock.Exclusive}
	switch i {
	case 1:
		item.Kind = lock.Fair
	case 2:
		item.Kind = []lock.Kind{lock.Read, lock.Read, lock.Write}[rng.IntN(3)]
	case 3:
		item.Kind = lock.Read
	case 4:
		item.Kind, item.Limit, item.Permits = lock.Semaphore, 4, uint32(1+rng.IntN(3))
	}
	return item
}

// beOperator frees names by force, and ends sessions.
func (s *siege) beOperator(rng *mrand.Rand) {
	ctx := context.Background()
	for !s.isOver() {
		time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		w, item := s.at[rng.IntN(2)], s.item(rng)
		if rng.IntN(4) == 0 {
			s.endSomebody(w)
			continue
		}
		if _, err := w.b.AnnounceForce(ctx, item.Name, byAlice); err != nil {
			s.complain("announce: %v", err)
		}
		if _, err := w.b.ForceRelease(ctx, item.Name, item.Kind); err != nil {
			s.complain("force: %v", err)
		}
		s.ground.told(item.Name)
		s.mu.Lock()
		s.forced++
		s.mu.Unlock()
	}
}

// beDeaf has a replica hear nothing now and then, so that it has only the announcements of what is freed.
func (s *siege) beDeaf(rng *mrand.Rand, store *faults) {
	for !s.isOver() {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		store.setDeaf(true)
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		store.setDeaf(false)
		store.tell(lock.Notice{What: lock.NoticeListening})
	}
}

func (s *siege) endSomebody(w *world) {
	s.mu.Lock()
	id := ""
	for id = range s.clients {
		break
	}
	s.mu.Unlock()
	var held []string
	for _, at := range s.at {
		for _, l := range at.b.Leases("", "", 1000) {
			if l.Holder.Session == id {
				held = append(held, l.Name)
			}
		}
	}
	e, err := w.b.EndSession(context.Background(), id, byAlice)
	if err != nil || e.Answered != 2 {
		s.complain("end %s: %+v, %v", id, e, err)
	}
	for _, name := range held {
		if e.Released {
			s.ground.told(name)
		}
	}
}

// beUnary tries without a session.
func (s *siege) beUnary(rng *mrand.Rand, w *world) {
	for !s.isOver() {
		time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
		item := s.item(rng)
		once := request.Once{
			Name: item.Name, Kind: item.Kind, Permits: item.Permits, Limit: item.Limit, Lease: 2 * time.Second,
			Wait: new(time.Duration(rng.IntN(2)*rng.IntN(500)) * time.Millisecond),
		}
		a := s.asks(w, item, []string{item.Name}, *once.Wait)
		l, refused, err := w.b.AcquireOnce(context.Background(), once)
		switch s.answered(a, refused != nil && errors.Is(refused.Cause, lock.ErrHeld)); {
		case err != nil:
			s.complain("a unary request for %+v: %v", item, err)
		case refused == nil:
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			once.LeaseID = l.LeaseID
			if _, err := w.b.ReleaseOnce(once); err != nil && !errors.Is(err, lock.ErrNotHeld) {
				s.complain("a unary release of %+v: %v", item, err)
			}
		}
	}
}

// wanted is a request that was made.
type wanted struct {
	w      *world
	names  []string
	began  time.Time
	wait   time.Duration // 0 for a try, less for one without a bound
	unread bool          // its answer is read late
	free   int           // since when the name is free, of which nobody else wanted anything here
	item   request.Item
	holder string
}

// asks notes a request before it is made.
func (s *siege) asks(w *world, item request.Item, names []string, wait time.Duration) *wanted {
	a := &wanted{w: w, item: item, names: names, began: time.Now(), wait: wait}
	i := s.replica(w)
	s.mu.Lock()
	others := s.open[i][names[0]]
	for _, n := range names {
		s.open[i][n]++
	}
	s.mu.Unlock()
	if others == 0 && wait == 0 && len(names) == 1 && item.Name != name(2) { // there writers who wait come first
		a.free = s.ground.since(names[0])
	}
	return a
}

func (s *siege) replica(w *world) int {
	if w == s.at[0] {
		return 0
	}
	return 1
}

// answered notes the answer, or that there will be none. held says that somebody else is told to hold the name.
func (s *siege) answered(a *wanted, held bool) {
	late := time.Since(a.began.Add(max(a.wait, 0)))
	if a.free != 0 && held && s.ground.since(a.names[0]) == a.free {
		s.complain("a try of %q (%v) is refused, which is free and was told to be: asked at %v", a.names[0],
			a.item.Kind, a.began.Format(clock))
	}
	if a.wait >= 0 && !a.unread && late > testConfig().AnswerTime+siegeSlack {
		s.complain("%+v is answered %v late", a, late)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.free != 0 {
		s.judged++
	}
	if held {
		s.refused++
	}
	for _, n := range a.names {
		s.open[s.replica(a.w)][n]--
	}
}
