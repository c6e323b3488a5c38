package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

func TestReadersReadTogetherAndAWriterWaitsForTheLast(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.alive(), w.alive(), w.replica().alive()
		writer := w.replica().alive()
		ga, gb, gc := a.takeKind("doc", lock.Read), b.takeKind("doc", lock.Read), c.takeKind("doc", lock.Read)
		writer.queueKind("doc", lock.Write)
		a.release(ga.Hold)
		c.release(gc.Hold)
		writer.none()
		b.release(gb.Hold)
		g := one[broker.Granted](writer)
		a.busy(of("doc", lock.Read))
		c.busy(of("doc", lock.Read))
		writer.release(g.Hold)
		w.free("doc")
	})
}

func TestTwentyReadersBehindAWriterReadTogether(t *testing.T) {
	inWorld(t, func(w *world) {
		writer, there := w.alive(), w.replica()
		g := writer.takeKind("doc", lock.Write)
		readers := make([]*client, 20)
		for i := range readers {
			readers[i] = []*world{w, there}[i%2].alive()
			readers[i].queueKind("doc", lock.Read)
		}
		writer.release(g.Hold)
		for _, r := range readers {
			r.grantedWithin(50 * time.Millisecond)
		}
		if st := w.look("doc"); st.Kind != lock.Read || st.Holders != 20 {
			t.Errorf("got %+v, want 20 readers", st)
		}
	})
}

// holder is a request of a named holder.
func holder(name string, k lock.Kind) broker.AcquireRequest {
	return broker.AcquireRequest{Name: name, Kind: k, Holder: "h"}
}

func TestWriterMayAlsoReadAndGoOnReading(t *testing.T) {
	inWorld(t, func(w *world) {
		c, near, far := w.alive(), w.alive(), w.replica().alive()
		write := c.takeAs(holder("doc", lock.Write))
		near.queueKind("doc", lock.Read) // nobody overtakes, but the writer itself may read
		far.queueKind("doc", lock.Read)
		read := c.takeAs(holder("doc", lock.Read))
		if read.Hold.Fence <= write.Hold.Fence || read.Count != 1 {
			t.Errorf("got %+v after %+v", read, write)
		}
		if st := w.look("doc"); st.Kind != lock.Write {
			t.Errorf("got kind %v, want write", st.Kind)
		}
		c.release(write.Hold) // the downgrade
		one[broker.Granted](near)
		one[broker.Granted](far)
		time.Sleep(2 * time.Minute) // all are renewed
		c.none()
		w.alive().busy(of("doc", lock.Write))
		c.release(read.Hold)
		if st := w.look("doc"); st.Kind != lock.Read || st.Holders != 2 {
			t.Errorf("got %+v, want two readers", st)
		}
	})
}

func TestReadHoldOfAWriterIsGivenBackWithoutHarmToTheWriteHold(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		req := holder("doc", lock.Write)
		req.Lease = new(time.Minute)
		write := c.takeAs(req)
		for range 2 {
			nested := holder("doc", lock.Read)
			nested.Lease = new(5 * time.Second)
			c.takeAs(nested)
		}
		c.release(broker.Hold{Name: "doc", Kind: lock.Read, Holder: "h"})
		if st := w.look("doc"); st.TTL != time.Minute {
			t.Errorf("got remaining time %v, want a minute", st.TTL)
		}
		c.release(broker.Hold{Name: "doc", Kind: lock.Read, Holder: "h"})
		time.Sleep(50 * time.Second)
		c.none()
		c.release(write.Hold)
		w.free("doc")
	})
}

func TestUpgradeIsRefusedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		read := c.takeAs(holder("doc", lock.Read))
		c.refused(holder("doc", lock.Write), broker.ErrUpgrade)
		c.takeAs(holder("doc", lock.Read)) // the hold is as it was
		c.release(read.Hold)
		c.release(read.Hold)
		c.takeAs(holder("doc", lock.Write))
	})
}

func TestUpgradeThatWaitedIsRefusedWhenItsHolderReads(t *testing.T) {
	inWorld(t, func(w *world) {
		writer, c := w.replica().alive(), w.alive()
		g := writer.takeKind("doc", lock.Write)
		_, _ = c.queueAs(holder("doc", lock.Read))
		id, _ := c.queueAs(holder("doc", lock.Write))
		writer.release(g.Hold)
		failed := false
		for _, e := range c.events() {
			if f, ok := e.(broker.Failed); ok {
				failed = f.ID == id && isError(f.Err, broker.ErrUpgrade)
			}
		}
		if !failed {
			t.Error("the upgrade was not refused")
		}
	})
}

func TestReadThatWaitedStandsBesideTheWriteHoldOfItsHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		first, c := w.alive(), w.alive()
		g := first.takeKind("doc", lock.Write)
		c.queueAs(holder("doc", lock.Write))
		c.queueAs(holder("doc", lock.Read))
		first.release(g.Hold)
		events := c.events()
		if len(events) != 2 {
			t.Fatalf("got %#v, want two grants", events)
		}
		for i, k := range []lock.Kind{lock.Write, lock.Read} {
			if g, ok := events[i].(broker.Granted); !ok || g.Hold.Kind != k {
				t.Errorf("got %#v, want %v", events[i], k)
			}
		}
	})
}

func TestOtherHoldersOfASessionAreOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.takeAs(holder("doc", lock.Write))
		c.busy(of("doc", lock.Read))
		c.busy(broker.AcquireRequest{Name: "doc", Kind: lock.Read, Holder: "other"})
	})
}

// TestWritersDoNotStarveUnderAStreamOfReaders has readers of another replica overlap without end.
func TestWritersDoNotStarveUnderAStreamOfReaders(t *testing.T) {
	inWorld(t, func(w *world) {
		there, writer := w.replica(), w.alive()
		stop := streamOf(there, 6, lock.Read)
		defer stop()
		time.Sleep(time.Second)
		writer.acquire(of("doc", lock.Write))
		writer.release(writer.grantedWithin(2 * time.Second).Hold)
		time.Sleep(5 * time.Second)
		writer.acquire(of("doc", lock.Write))
		writer.release(writer.grantedWithin(2 * time.Second).Hold)
	})
}

func TestReadersDoNotStarveUnderAStreamOfWriters(t *testing.T) {
	inWorld(t, func(w *world) {
		there, reader := w.replica(), w.alive()
		stop := streamOf(there, 6, lock.Write)
		defer stop()
		time.Sleep(time.Second)
		for range 5 {
			reader.acquire(of("doc", lock.Read))
			reader.release(reader.grantedWithin(30 * time.Second).Hold)
		}
	})
}

// streamOf keeps n clients of a replica holding "doc" for 100 ms each, again and again.
func streamOf(w *world, n int, k lock.Kind) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	for range n {
		c := w.alive()
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-over:
					return
				default:
				}
				c.Acquire(c.id(), of("doc", k))
				hold, ok := c.awaitHold(over)
				if !ok {
					return
				}
				time.Sleep(100 * time.Millisecond)
				c.Release(c.id(), hold)
			}
		}()
	}
	return func() {
		close(over)
		for range n {
			<-done
		}
	}
}

// awaitHold waits for a grant, without looking at anything else.
func (c *client) awaitHold(over <-chan struct{}) (h broker.Hold, ok bool) {
	for {
		select {
		case <-c.Outbox().Wake():
		case <-over:
			return h, false
		}
		for _, e := range c.Outbox().Take() {
			if g, granted := e.(broker.Granted); granted {
				return g.Hold, true
			}
		}
	}
}

func TestDeadReaderDoesNotHoldBackAWriterBeyondItsLease(t *testing.T) {
	inWorld(t, func(w *world) {
		dead, reader, writer := w.open(), w.alive(), w.replica().alive()
		dead.takeKind("doc", lock.Read)
		live := reader.takeKind("doc", lock.Read)
		writer.queueKind("doc", lock.Write)
		time.Sleep(31 * time.Second)
		reader.release(live.Hold)
		one[broker.Granted](writer)
	})
}

func TestWriterGetsInWhenTheLongestReaderEnds(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, writer := w.alive(), w.alive(), w.replica().alive()
		long, short := of("doc", lock.Read), of("doc", lock.Read)
		long.Lease, short.Lease = new(10*time.Second), new(3*time.Second)
		a.takeAs(long)
		b.takeAs(short)
		writer.queueKind("doc", lock.Write)
		time.Sleep(9 * time.Second)
		writer.none()
		writer.grantedWithin(1100 * time.Millisecond)
	})
}

func TestReaderWhoLeavesDoesNotProlongTheOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, writer := w.alive(), w.alive(), w.replica().alive()
		req := of("doc", lock.Read)
		req.Lease = new(4 * time.Second)
		a.takeAs(req)
		g := b.takeKind("doc", lock.Read)
		writer.queueKind("doc", lock.Write)
		b.release(g.Hold)
		writer.grantedWithin(4100 * time.Millisecond)
	})
}

func TestWriterWhoLeavesLetsReadersIn(t *testing.T) {
	inWorld(t, func(w *world) {
		reader, writer, late := w.alive(), w.replica().alive(), w.replica().alive()
		reader.takeKind("doc", lock.Read)
		id := writer.queueKind("doc", lock.Write)
		late.queueKind("doc", lock.Read)
		writer.Cancel(writer.id(), id)
		late.grantedWithin(10 * time.Millisecond)
	})
}

func TestDeadWaitingWriterHoldsReadersBackForSecondsOnly(t *testing.T) {
	inWorld(t, func(w *world) {
		far, store := w.severable()
		reader, writer, late := w.alive(), far.alive(), w.replica().alive()
		reader.takeKind("doc", lock.Read)
		writer.queueKind("doc", lock.Write)
		late.queueKind("doc", lock.Read)
		store.setDown(lock.ErrUnavailable)
		late.grantedWithin(8 * time.Second)
	})
}

func TestReadBesideAWriteHoldThatIsRefusedLeavesNothing(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession = 4, 2
	inWorldWith(t, cfg, func(w *world) {
		c := w.alive()
		c.takeAs(holder("doc", lock.Write))
		w.store.onAcquire(func(next func() (lock.Grant, error)) (lock.Grant, error) {
			time.Sleep(time.Second)
			return next()
		})
		for range 6 { // as many as may be under way
			c.acquire(holder("doc", lock.Write))
		}
		c.refused(holder("doc", lock.Read), broker.ErrQuota)
		if infos := w.b.Sessions("", 1); infos[0].Waiters != 0 {
			t.Errorf("%d requests wait, want none", infos[0].Waiters)
		}
	})
}

// TestReadBesideAWriteHoldMeetsTheEndOfEverything ends it in all ways while the store is at it.
func TestReadBesideAWriteHoldMeetsTheEndOfEverything(t *testing.T) {
	force := func(w *world) { _, _ = w.b.ForceRelease(w.t.Context(), "doc", lock.Write) }
	for what, end := range map[string]func(w *world, c *client, id uint64){
		"cancel":  func(_ *world, c *client, id uint64) { c.Cancel(c.id(), id) },
		"goodbye": func(_ *world, c *client, _ uint64) { c.Goodbye() },
		"end":     func(_ *world, c *client, _ uint64) { c.End(broker.ErrSilent) },
		"loss":    func(w *world, _ *client, _ uint64) { w.lose() },
		"force, and ask again": func(w *world, c *client, _ uint64) {
			force(w)
			synctest.Wait()
			c.acquire(holder("doc", lock.Read))
		},
		"force once it reads, and ask again": func(w *world, c *client, _ uint64) {
			time.Sleep(1500 * time.Millisecond)
			force(w)
			synctest.Wait()
			c.acquire(holder("doc", lock.Read))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.openWith(broker.OpenRequest{ReleaseOnEnd: true})
				c.takeAs(holder("doc", lock.Write))
				w.store.onAcquire(func(next func() (lock.Grant, error)) (lock.Grant, error) {
					time.Sleep(time.Second)
					g, err := next()
					time.Sleep(time.Second)
					return g, err
				})
				id := c.acquire(holder("doc", lock.Read))
				c.none()
				end(w, c, id)
				time.Sleep(5 * time.Second)
				c.Goodbye()
				time.Sleep(12 * time.Second)
				if r := c.Residue() + w.b.Residue(); r != "" {
					t.Error(r)
				}
				w.free("doc")
			})
		})
	}
}
