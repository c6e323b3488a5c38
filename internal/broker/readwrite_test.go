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
				hold := c.awaitGrant().Hold
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
