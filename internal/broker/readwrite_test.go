package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
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
