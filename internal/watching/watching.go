// Package watching tells who watches a name of each end of a hold.
//
// # What it promises
//
// From the answer to Watch on, each end of a hold of the name is told at least once, with its cause: whoever ended it,
// on whichever replica, and also if nobody tells of it, as when a lease runs out. An end names the hold by its fence
// or, for permits, by its ID, so that a repeat is recognised. A hold of another program has neither; its end is told
// once. Ends of one name are told in the order in which they become known.
//
// # What it does not promise
//
// While messages of the store are not heard, ends may be told late, and several as one. Watching holds no other call
// up. The methods of a Watcher must not block: others that watch the name are told after it.
//
// A forced release takes all permits of a semaphore, in one message that names none. The ends of those that a look saw
// are told, and one more without an ID, whether there was another hold or not.
//
// # What an end is known by
//
// There are four signs: lockd's message, which has the cause and the fence; Redisson's, which says only that something
// was released; a look that does not see a hold any more; and what this replica ended itself. lockd's messages and the
// own ends are told at once. All else is looked up. A look ends only after every earlier message was heard. If a hold
// is gone then, and no message named it, its lease ended (EXPIRED), its key was deleted (FORCED), or the data are lost.
// That is told at once, as UNKNOWN if messages were not heard since the look before. Redisson's messages are counted
// against those of its holds that are gone. The messages left over are told as well: their holds ended before any look
// saw them.
//
// Over several stores a message is sure when a majority of those that vote told of it. What fewer tell of is looked up:
// a hold that stands at a majority has not ended, one that is gone ended by what they said, and one that nobody saw was
// an attempt that failed.
package watching

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Watcher is who watches names. Its methods may be called until a moment after Unwatch.
type Watcher interface {
	// Tenant never changes.
	Tenant() lock.Tenant
	// Watching answers a call of Watch.
	Watching(id uint64)
	// Unlocked tells the end of a hold of a name.
	Unlocked(name string, e End)
}

// End is the end of a hold.
type End struct {
	Cause lock.EndCause
	// Fence is 0 if it is not known.
	Fence lock.Fence
	// Hold is the ID of permits, and empty for other holds.
	Hold string
	// Merged is how many earlier ends this one stands for, too.
	Merged uint32
}

// Store is what watching asks of a lock.Store.
type Store interface {
	Watch(name string, notify func(lock.Notice)) (stop func())
	See(ctx context.Context, name string) (lock.Seen, error)
}

// Hub knows which names are watched, and by whom. Watch and Unwatch of one Watcher are not called at the same time.
type Hub struct {
	store Store
	ctx   context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup
	size  atomic.Int64 // of names

	mu    sync.Mutex // guards names; locked before watch.mu
	names map[string]*watch
}

// New makes a Hub. Close ends it.
func New(store Store) *Hub {
	ctx, stop := context.WithCancel(context.Background())
	return &Hub{store: store, ctx: ctx, stop: stop, names: make(map[string]*watch)}
}

// Close ends all watches and waits until nobody is told anything any more.
func (h *Hub) Close() {
	h.stop()
	h.mu.Lock()
	for _, w := range h.names {
		w.await()
	}
	h.mu.Unlock()
	h.wg.Wait()
}

// Names is how many names are watched.
func (h *Hub) Names() int { return int(h.size.Load()) }

// Watch tells a Watcher of the ends of holds of a name, from its answer on. The answer comes when the name was looked
// at.
func (h *Hub) Watch(name string, to Watcher, id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.names[name]
	if w == nil {
		ctx, stop := context.WithCancel(h.ctx)
		w = &watch{hub: h, name: name, stop: stop, wake: make(chan struct{}, 1), touched: make(chan struct{}, 1)}
		w.deaf = true
		h.names[name] = w
		h.size.Add(1)
		h.wg.Go(func() { w.observe(ctx) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to.add(to)
	if a := (asked{to, id}); w.looked {
		w.sayLocked(news{answers: []asked{a}})
	} else {
		w.asked = append(w.asked, a)
	}
}

// Unwatch ends that. It is no error if there is no watch.
func (h *Hub) Unwatch(name string, to Watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.names[name]
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to.remove(to)
	if len(w.to.of) == 0 {
		w.stop()
		delete(h.names, name)
		h.size.Add(-1)
		w.answerLocked() // there may be no look any more
	}
}

// Ended tells of a hold that this replica ended. It costs nothing while nobody watches anything.
func (h *Hub) Ended(name string, e End) {
	if w := h.watched(name); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.endedLocked(e, false)
	}
}

// Watchers says how many Watchers of a tenant watch a name.
func (h *Hub) Watchers(name string, t lock.Tenant) int {
	w := h.watched(name)
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.by[t]
}

// watched is nil if nobody watches the name.
func (h *Hub) watched(name string) *watch {
	if h.size.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.names[name]
}

// watch is a watched name. One goroutine looks for what nobody tells, such as a lease that runs out; see sightings.go.
type watch struct {
	hub  *Hub
	name string
	stop context.CancelFunc
	wake chan struct{} // size 1
	// touched has a value when a hold may have been renewed, or something else happened that nobody tells of; size 1.
	touched chan struct{}

	mu     sync.Mutex // guards the fields below
	to     watchers
	looked bool    // once, so that what happens from now on is noticed
	asked  []asked // to be answered then
	news   lock.Teller[news]
	sightings
}

// asked is a call of Watch that was not answered yet.
type asked struct {
	to Watcher
	id uint64
}

// news are answers, and then the end of a hold, unless it is told to nobody.
type news struct {
	answers []asked
	to      []Watcher
	end     End
}

// maxUntold bounds what waits to be told of a name, as calls of Unlocked: telling may be slower than what happens. Then
// ends are merged.
const maxUntold = 4096

// merge puts later news into these. Who is answered then, before an end, was not there when it was to be told.
func (n *news) merge(later news) {
	n.answers = append(n.answers, later.answers...)
	if len(later.to) > 0 {
		if len(n.to) > 0 {
			later.end.Merged += n.end.Merged + 1
		}
		n.to, n.end = later.to, later.end
	}
}

// await waits for whoever has the mutex. The next one sees that the hub is closed.
func (w *watch) await() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// answerLocked answers those who waited for the first look.
func (w *watch) answerLocked() {
	if len(w.asked) > 0 {
		w.sayLocked(news{answers: w.asked})
	}
	w.looked, w.asked = true, nil
}

// tellLocked tells the end of a hold. Before the first look nothing is promised.
func (w *watch) tellLocked(e End) {
	if w.looked {
		w.sayLocked(news{to: w.to.all(), end: e})
	}
}

// sayLocked has something told in a goroutine that may wait for those who are told.
func (w *watch) sayLocked(n news) {
	if len(n.to) == 0 && len(n.answers) == 0 || w.hub.ctx.Err() != nil {
		return
	}
	most := max(1, maxUntold/max(1, len(w.to.of)))
	if w.news.AddOrMerge(n, most, func(last *news) { last.merge(n) }) {
		w.hub.wg.Go(func() { w.news.Tell(w.tell) })
	}
}

func (w *watch) tell(n news) {
	for _, a := range n.answers {
		a.to.Watching(a.id)
	}
	for _, to := range n.to {
		to.Unlocked(w.name, n.end)
	}
}

// observe looks at the name whenever it may have changed without a message.
func (w *watch) observe(ctx context.Context) {
	stop := w.hub.store.Watch(w.name, w.noticed)
	defer stop()
	w.rest(ctx, deafPause, lookSpacing) // what is told from the first look on is exact if it is heard
	for ctx.Err() == nil {
		before := w.beginLook()
		st, err := w.hub.store.See(ctx, w.name)
		pause, spacing := failurePause, lookSpacing
		if err != nil {
			w.unseen(before)
		} else {
			pause, spacing = w.saw(before, st)
		}
		w.rest(ctx, pause, spacing)
		time.Sleep(lookSpacing)
	}
}

// rest waits until something happened, but not longer than a pause, and if the name was touched no longer than a
// spacing.
func (w *watch) rest(ctx context.Context, pause, spacing time.Duration) {
	begun := time.Now()
	for {
		select {
		case <-w.touched:
			pause = min(pause, spacing)
			continue
		case <-time.After(time.Until(begun.Add(pause))):
		case <-w.wake:
		case <-ctx.Done():
		}
		return
	}
}

// noticed notes what the store tells, and has the name looked at.
func (w *watch) noticed(n lock.Notice) {
	wake := w.wake
	w.mu.Lock()
	switch n.What {
	case lock.NoticeTouched:
		wake = w.touched
	case lock.NoticeEnded:
		w.endedLocked(End{Cause: n.Cause, Fence: n.Fence, Hold: n.Hold}, n.Unsure)
	case lock.NoticeListening:
		w.deaf, w.since.blind = false, true // until now
	case lock.NoticeDeaf:
		w.deaf, w.since.blind = true, true
	case lock.NoticeFlushed:
		w.since.flushed = true
	default: // the look tells
	}
	w.mu.Unlock()
	select {
	case wake <- struct{}{}:
	default:
	}
}
