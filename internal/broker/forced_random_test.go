package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	mrand "math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Clients of two replicas want the same few names in all ways at once, and operators free names by force and end
// sessions. The store is well. So each request has one answer in its time, a try is not refused what an operator was
// told to be free, and in the end nothing is left.

const (
	siegeNames = 5
	siegeTime  = 20 * time.Second // in the bubble
	// siegeSlack is how much later than in time a client may look at an answer, which it does now and then.
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

// ground is the store of both, which knows what is free since somebody was told so.
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
	for _, seed := range seeds(1, 2, 3, 4, 5, 6, 7, 8) {
		for _, way := range []time.Duration{0, 5 * time.Millisecond, 150 * time.Millisecond} {
			t.Run(fmt.Sprint("seed ", seed, " way ", way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { besiege(t, seed, way) })
			})
		}
	}
}

func besiege(t *testing.T, seed uint64, way time.Duration) {
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
	if s.judged < 3 && way < 100*time.Millisecond || s.grants < 100 || s.forced < 10 {
		t.Error("this shows nothing")
	}
}

// forcible is a store that is freed by force beside its other calls.
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

func (s *siege) endSomebody(w *world) {
	s.mu.Lock()
	id := ""
	for id = range s.clients {
		break
	}
	s.mu.Unlock()
	var held []string
	for i := range siegeNames {
		if st, err := s.ground.Look(context.Background(), name(i)); err == nil && strings.HasPrefix(string(st.Owner), id) {
			held = append(held, name(i))
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

// besieger is a client.
type besieger struct {
	s      *siege
	w      *world
	sess   *broker.Session
	rng    *mrand.Rand
	unread bool // it reads its answers seldom
	epoch  uint64
	lastID uint64
	asked  map[uint64]*wanted
	held   map[session.Hold]*session.HeldLock
	back   map[uint64]session.Hold // what is being released
}

func (b *besieger) live() {
	for !b.s.isOver() {
		b.begin()
		for !b.s.isOver() && b.epoch > 0 {
			time.Sleep(time.Duration(b.rng.IntN(3)*b.rng.IntN(60)) * time.Millisecond)
			b.act()
			b.hear()
		}
	}
	if b.epoch == 0 {
		return
	}
	b.releaseAll()
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		for id, a := range b.asked {
			if a.wait < 0 {
				b.sess.Cancel(b.id(), id)
			}
		}
		b.hear()
		if b.epoch == 0 {
			return
		}
		b.releaseAll()
	}
	if len(b.asked) > 0 {
		b.s.complain("%d requests are not answered", len(b.asked))
	}
	b.sess.Goodbye()
	b.forget()
}

func (b *besieger) begin() {
	b.w = b.s.at[b.rng.IntN(2)]
	sess, err := b.w.b.Open(session.OpenRequest{ComesBack: true})
	if err != nil {
		b.s.complain("open: %v", err)
		return
	}
	b.sess, b.epoch, b.lastID = sess, 1, 0
	b.asked, b.held = make(map[uint64]*wanted), make(map[session.Hold]*session.HeldLock)
	b.back = make(map[uint64]session.Hold)
	b.s.mu.Lock()
	b.s.clients[sess.ID()] = true
	b.s.mu.Unlock()
}

func (b *besieger) id() uint64 { b.lastID++; return b.lastID }

// forget is the end of the session.
func (b *besieger) forget() {
	b.drop()
	b.epoch = 0
	b.s.mu.Lock()
	delete(b.s.clients, b.sess.ID())
	b.s.mu.Unlock()
}

// drop has nobody wait for answers any more.
func (b *besieger) drop() {
	for id, a := range b.asked {
		a.wait = -1
		b.s.answered(a, false)
		delete(b.asked, id)
	}
}

func (b *besieger) act() {
	b.sess.Hear()
	switch n := b.rng.IntN(100); {
	case n < 50:
		b.ask(0)
	case n < 60:
		b.ask(time.Duration(1+b.rng.IntN(400)) * time.Millisecond)
	case n < 66:
		b.ask(-1)
	case n < 72:
		for range 5 {
			b.ask(0)
		}
	case n < 88:
		for h := range b.held {
			b.release(h)
			break
		}
	case n < 92:
		b.releaseAll()
	case n < 95:
		b.sess.Cancel(b.id(), b.lastID/2)
		for id := range b.asked {
			b.sess.Cancel(b.id(), id)
			break
		}
	case n < 98:
		b.move()
	default:
		b.sess.Goodbye()
		b.forget()
	}
}

func (b *besieger) releaseAll() {
	for h, l := range b.held {
		for range l.Count {
			b.release(h)
		}
	}
}

func (b *besieger) release(h session.Hold) {
	id := b.id()
	b.back[id] = h
	b.sess.Release(id, h)
}

func (b *besieger) ask(wait time.Duration) {
	item := b.s.item(b.rng)
	req := request.Acquire{Name: item.Name, Kind: item.Kind, Permits: item.Permits, Limit: item.Limit, Wait: &wait}
	if wait < 0 {
		req.Wait = nil
	}
	if item.Kind != lock.Semaphore {
		req.Holder = []string{"", "", "h"}[b.rng.IntN(3)]
	}
	names := []string{item.Name}
	if b.rng.IntN(6) == 0 {
		if more := b.s.item(b.rng); more.Name != item.Name {
			req.More, req.List = append(req.More, more), request.Items
			names = append(names, more.Name)
			if more.Kind == lock.Semaphore {
				req.Holder = ""
			}
		}
	}
	id := b.id()
	a := b.s.asks(b.w, item, names, wait)
	a.holder, a.unread = req.Holder, b.unread
	b.asked[id] = a
	b.sess.Acquire(id, req)
}

// move goes on with the session, at any replica.
func (b *besieger) move() {
	if b.hear(); b.epoch == 0 {
		return
	}
	b.sess.Detach(errCut)
	b.drop()
	b.w = b.s.at[b.rng.IntN(2)]
	b.epoch++
	req := session.ResumeRequest{
		OpenRequest: session.OpenRequest{ComesBack: true}, ID: b.sess.ID(), Token: b.sess.Token(), Epoch: b.epoch,
		LastRequest: b.lastID,
	}
	last := make(map[session.Hold]*session.HeldLock) // of each holder, who may have heard of no loss yet
	for h, l := range b.held {
		key := session.Hold{Name: h.Name, Kind: h.Kind, Holder: h.Holder}
		if o := last[key]; o == nil || o.Hold.Fence < h.Fence {
			last[key] = l
		}
	}
	for _, l := range last {
		req.Holds = append(req.Holds, *l)
	}
	sess, lost, err := b.w.b.Resume(context.Background(), req)
	switch {
	case errors.Is(err, session.ErrSessionExpired):
		b.forget()
		return
	case err != nil:
		b.s.complain("resume: %v", err)
		b.forget()
		return
	}
	b.sess = sess
	for _, l := range lost {
		delete(b.held, l.Hold)
	}
}

// hear takes what the client was told.
func (b *besieger) hear() {
	if b.epoch == 0 || b.unread && b.rng.IntN(3) > 0 && !b.s.isOver() {
		return
	}
	over := false
	select {
	case <-b.sess.Done():
		over = true
	default:
	}
	for _, e := range b.sess.Outbox().TakeSome(math.MaxInt, math.MaxInt) {
		switch e := e.(type) {
		case session.Granted:
			b.conclude(e.ID, false)
			b.granted(e)
		case session.NotGranted:
			b.conclude(e.ID, errors.Is(e.Cause, lock.ErrHeld))
		case session.Failed:
			b.failed(e)
		case session.Released:
			if h := b.back[e.ID]; e.Remaining == 0 {
				delete(b.held, h)
			} else if l := b.held[h]; l != nil {
				l.Count = e.Remaining
			}
			delete(b.back, e.ID)
		case session.Lost:
			delete(b.held, e.Hold)
		}
	}
	if over {
		b.forget()
	}
}

func (b *besieger) conclude(id uint64, held bool) {
	a := b.asked[id]
	if a == nil {
		b.s.complain("request %d is answered, and was not made or was answered before", id)
		return
	}
	delete(b.asked, id)
	b.s.answered(a, held)
}

func (b *besieger) granted(g session.Granted) {
	b.s.mu.Lock()
	b.s.grants++
	b.s.mu.Unlock()
	for _, h := range append([]session.Hold{g.Hold}, g.More...) {
		l := &session.HeldLock{Hold: h, Count: g.Count, Auto: g.Auto, Permits: 1}
		if h.Kind != lock.Semaphore {
			l.Permits = 0
		}
		b.held[h] = l
	}
}

func (b *besieger) failed(f session.Failed) {
	if a := b.asked[f.ID]; a != nil {
		// What named holders have is verified after they moved, for one request after the other.
		moved := a.holder != "" && b.epoch > 1
		if !moved && (errors.Is(f.Err, lock.ErrUnavailable) || errors.Is(f.Err, lock.ErrOutcomeUnknown)) {
			b.s.complain("%+v is answered %v", a, f.Err)
		}
		b.conclude(f.ID, false)
		return
	}
	if h, is := b.back[f.ID]; is && errors.Is(f.Err, lock.ErrNotHeld) {
		delete(b.held, h)
	}
	delete(b.back, f.ID)
}
