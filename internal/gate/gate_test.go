package gate

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// store does so many requests in each millisecond.
type store struct {
	waits  atomic.Int64
	most   atomic.Int64
	late   atomic.Int64 // of renewals
	others atomic.Int64 // of the other session
}

func (s *store) Waiting() int            { return int(s.waits.Load()) }
func (s *store) lateness() time.Duration { return time.Duration(s.late.Load()) }
func (s *store) put(n int)               { s.most.Store(max(s.most.Load(), s.waits.Add(int64(n)))) }

// Share has all of it be of one session, unless it is another one.
func (s *store) Share(session string) (its, all int) {
	if session == "other" {
		return int(s.others.Load()), 2
	}
	return s.Waiting() - int(s.others.Load()), 2
}

// serve does requests until there are none for a second.
func (s *store) serve(each int64) {
	for idle := 0; idle < 1000; idle++ {
		time.Sleep(time.Millisecond)
		if n := min(s.waits.Load(), each); n > 0 {
			s.waits.Add(-n)
			idle = 0
		}
	}
}

const piece = 64

// TestNoMoreWaitForAStoreThanItSoonTakes has very many clients ask all the time. Not many more requests wait for the
// store than it should have, all clients get their turn, and the store always has something to do.
func TestNoMoreWaitForAStoreThanItSoonTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		g := New(&s, s.lateness)
		const clients, pieces, each = 500, 20, 50
		var longest atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for range clients {
			wg.Go(func() {
				for range pieces {
					asked := time.Now()
					g.Enter("", piece, time.Minute, nil)
					longest.Store(max(longest.Load(), int64(time.Since(asked))))
					s.put(piece)
					time.Sleep(time.Millisecond)
				}
			})
		}
		go s.serve(each)
		wg.Wait()
		if n := s.most.Load(); n > 2*most { // without the gate, clients*piece
			t.Errorf("%d requests waited for the store", n)
		}
		fair := time.Duration(clients*piece/each) * time.Millisecond
		if d := time.Duration(longest.Load()); d > 3*fair {
			t.Errorf("somebody waited %v, while all wait about %v", d, fair)
		}
		if took, best := time.Since(began), time.Duration(clients*pieces*piece/each)*time.Millisecond; took > best*11/10 {
			t.Errorf("took %v, the store could do it in %v", took, best)
		}
		time.Sleep(2 * time.Second)
	})
}

// TestNobodyEntersWhileRenewalsAreLate expects all to enter as soon as they are not, and who waits longer than he may.
func TestNobodyEntersWhileRenewalsAreLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		g := New(&s, s.lateness)
		if g.Enter("", piece, time.Minute, nil); g.Shut() {
			t.Error("the gate is shut although nobody waits")
		}
		s.late.Store(int64(time.Second))
		var entered atomic.Int32
		over := make(chan struct{})
		enter := func(patience time.Duration, over <-chan struct{}) {
			go func() {
				g.Enter("", piece, patience, over)
				entered.Add(1)
			}()
		}
		wants := func(what string, n int32) {
			t.Helper()
			synctest.Wait()
			if got := entered.Load(); got != n {
				t.Errorf("%s: %d have entered, want %d", what, got, n)
			}
		}
		enter(2*time.Second, nil)
		synctest.Wait()
		enter(time.Minute, over)
		enter(time.Minute, nil)
		time.Sleep(1900 * time.Millisecond)
		wants("while renewals are late", 0)
		time.Sleep(200 * time.Millisecond)
		wants("after the patience of one", 1)
		close(over)
		wants("when one leaves", 2)
		s.late.Store(0)
		time.Sleep(10 * time.Millisecond)
		wants("when renewals are in time", 3)
		s.waits.Store(most)
		enter(3*time.Second, nil)
		time.Sleep(3900 * time.Millisecond)
		wants("while there is no room before the store", 3)
		time.Sleep(200 * time.Millisecond)
		wants("when even so it has waited long enough", 4)
		s.waits.Store(0)
		time.Sleep(10 * time.Millisecond)
		if g.Shut() {
			t.Error("the gate is still shut")
		}
	})
}

// TestANilGateIsOpen is for stores that are never in a hurry.
func TestANilGateIsOpen(t *testing.T) {
	var g *Gate
	if g.Shut() {
		t.Error("it is shut")
	}
}

// TestWhoHasLittleWaitingPassesWhoHasMuch has one session fill the room before the store. Others enter without waiting,
// up to an even share, and not while renewals are late.
func TestWhoHasLittleWaitingPassesWhoHasMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s store
		g := New(&s, s.lateness)
		s.waits.Store(most)
		var flood atomic.Bool
		go func() {
			g.Enter("flood", piece, time.Minute, nil)
			flood.Store(true)
		}()
		enter := func() time.Duration {
			begun := time.Now()
			g.Enter("other", piece, 3*time.Second, nil)
			return time.Since(begun)
		}
		for range most / 2 / piece {
			if d := enter(); d > 0 {
				t.Fatalf("the other one waited %v with %d requests before the store", d, s.others.Load())
			}
			s.waits.Add(piece)
			s.others.Add(piece)
		}
		if d := enter(); d != 4*time.Second {
			t.Errorf("the other one waited %v, want as long as it may: it has an even share", d)
		}
		if flood.Load() {
			t.Error("the flood entered, which has more than an even share")
		}
		s.others.Store(0)
		s.late.Store(int64(time.Second))
		if d := enter(); d != 3*time.Second {
			t.Errorf("the other one waited %v, want until its patience is over, as renewals are late", d)
		}
		s.late.Store(0)
		s.waits.Store(0)
		time.Sleep(time.Second)
		if !flood.Load() {
			t.Error("the flood does not enter although there is room")
		}
	})
}
