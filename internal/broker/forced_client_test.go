package broker_test

import (
	"context"
	"errors"
	"math"
	mrand "math/rand/v2"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

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
		time.Sleep(time.Second)
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
