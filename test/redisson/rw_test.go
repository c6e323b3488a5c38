package redisson

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

func TestReadersOfBothSidesShare(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	c, r := s.lockd.Dial(s.t), s.redisson.worker("reader")
	l := s.lock(c, read, "book")
	r.want(true, "try", "read", "book", 0, 0)
	if st := s.get("book"); st.GetHolders() != 2 {
		t.Errorf("lockd counts %d readers, want 2", st.GetHolders())
	}
	writer := s.redisson.worker("writer")
	writer.want(false, "try", "write", "book", 0, 0)
	if _, err := c.TryLock(t.Context(), "book", write.opts...); err == nil {
		t.Error("lockd let a writer in among readers")
	}
	s.unlock(l)
	writer.want(false, "try", "write", "book", 0, 0)
	if _, err := c.TryLock(t.Context(), "book", write.opts...); err == nil {
		t.Error("lockd let a writer in while Redisson reads")
	}
	r.ask("release", "read", "book")
	writer.want(true, "try", "write", "book", 0, 0)
	writer.ask("release", "write", "book")
	s.unlock(s.lock(c, write, "book"))
}

func TestLockdsWriterReadsAndDowngrades(t *testing.T) {
	s := newStage(t, long)
	c := s.lockd.Dial(s.t)
	w := s.lock(c, write.with(client.Holder("me")), "book")
	mine := s.lock(c, read.with(client.Holder("me")), "book")
	reader, writer := s.redisson.worker("reader"), s.redisson.worker("writer")
	reader.want(true, "locked", "write", "book")
	reader.want(true, "locked", "read", "book") // the writer's
	waiting := reader.tell("acquire", "read", "book", 0)
	reader.waits()
	hesitate()
	if waiting.answered() {
		t.Fatal("Redisson reads while lockd writes")
	}
	s.unlock(w)
	waiting.must()
	reader.want(false, "locked", "write", "book")
	reader.ask("release", "read", "book")
	writer.want(false, "try", "write", "book", 0, 0)
	s.unlock(mine)
	writer.want(true, "try", "write", "book", 0, 0)
}

// Redisson tells nobody when its writer becomes a reader; lockd's readers look again when the lease as they knew it
// ends.
func TestRedissonsWriterReadsAndDowngrades(t *testing.T) {
	t.Parallel()
	s := newStage(t, short)
	c, r := s.lockd.Dial(s.t), s.redisson.worker("me")
	r.ask("acquire", "write", "book", 0)
	r.ask("acquire", "read", "book", 0)
	waiter := s.wait(c, read, "book")
	s.waiting("book", 1)
	time.Sleep(s.ttl / 2)
	s.none(waiter)
	r.ask("release", "write", "book")
	l := s.soon(waiter)
	if _, err := c.TryLock(t.Context(), "book", write.opts...); err == nil {
		t.Error("lockd let a writer in among readers")
	}
	s.unlock(l)
	r.ask("release", "read", "book")
	s.unlock(s.lock(c, write, "book"))
}
