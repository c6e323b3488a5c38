package broker_test

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

func (c *client) watch(name string) {
	c.t.Helper()
	c.Watch(c.id(), name)
	one[session.Done](c)
}

func TestUnlocksAreMergedOnlyWhenTheClientDoesNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.alive()
		watcher.watch("job")
		const ends = 200
		var last lock.Fence
		for range ends {
			g := holder.take("job")
			last = g.Hold.Fence
			holder.release(g.Hold)
		}
		var told []session.Unlocked
		total := 0
		for _, e := range watcher.events() {
			u := e.(session.Unlocked)
			told = append(told, u)
			total += 1 + int(u.Merged)
		}
		if n := len(told); total != ends || n < 10 || n >= ends || told[n-1].Fence != last || told[0].Merged > 0 {
			t.Errorf("%d ends were told as %d in %d events: %+v", ends, total, n, told)
		}
	})
}
