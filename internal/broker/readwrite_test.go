package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// holder is a request of a named holder.
func holder(name string, k lock.Kind) request.Acquire {
	return request.Acquire{Name: name, Kind: k, Holder: "h"}
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
		one[session.Granted](near)
		one[session.Granted](far)
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
		c.release(session.Hold{Name: "doc", Kind: lock.Read, Holder: "h"})
		if st := w.look("doc"); st.TTL != time.Minute {
			t.Errorf("got remaining time %v, want a minute", st.TTL)
		}
		c.release(session.Hold{Name: "doc", Kind: lock.Read, Holder: "h"})
		time.Sleep(50 * time.Second)
		c.none()
		c.release(write.Hold)
		w.free("doc")
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
			if f, ok := e.(session.Failed); ok {
				failed = f.ID == id && isError(f.Err, session.ErrUpgrade)
			}
		}
		if !failed {
			t.Error("the upgrade was not refused")
		}
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
func (c *client) awaitHold(over <-chan struct{}) (h session.Hold, ok bool) {
	for {
		select {
		case <-c.Outbox().Wake():
		case <-over:
			return h, false
		}
		for _, e := range c.Outbox().Take() {
			if g, granted := e.(session.Granted); granted {
				return g.Hold, true
			}
		}
	}
}

func TestReadBesideAWriteHoldThatIsRefusedLeavesNothing(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession = 4, 2
	inWorldWith(t, cfg, func(w *world) {
		c := w.alive()
		c.takeAs(holder("doc", lock.Write))
		w.store.on("Acquire", late(time.Second))
		for range 6 { // as many as may be under way
			c.acquire(holder("doc", lock.Write))
		}
		c.refused(holder("doc", lock.Read), session.ErrQuota)
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
		"end":     func(_ *world, c *client, _ uint64) { c.End(session.ErrSilent) },
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
				w.store.on("Acquire", func(next func() error) error {
					time.Sleep(time.Second)
					err := next()
					time.Sleep(time.Second)
					return err
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
