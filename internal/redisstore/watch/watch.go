package watch

import (
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// Grace is how long a message of Redisson's is kept to see whether news of lockd follow it. They come directly
// behind it on the same connection. If there are none by then, Redis is asked whether that was all: on a busy machine
// they may be read later.
const Grace = 20 * time.Millisecond

// Watch implements lock.Store. The kind of the name is not known, so it listens to the channels of all kinds.
//
// Redisson's message says only that something was released. If lockd sent it, news follow that say which hold ended;
// if not, a hold of another program did.
func (l *Lookout) Watch(name string, notify func(lock.Notice)) (stop func()) {
	n := l.Prefix + name
	channels := []string{layout.Channel(n), layout.RWChannel(n), layout.PermitChannel(n), layout.NewsChannel(n)}
	w := &watcher{hub: l.hub, channels: channels, confirmed: make([]bool, len(channels)), notify: notify}
	stops := make([]func(), 0, len(channels)+1)
	stops = append(stops, l.scout.follow(n, notify))
	for i, channel := range channels {
		stops = append(stops, l.hub.Listen(channel, func(h hub.Heard) { w.hear(i, h) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// watcher makes one voice of the channels of a name.
type watcher struct {
	hub      *hub.Hub
	channels []string // the news last
	notify   func(lock.Notice)

	mu        sync.Mutex // guards the fields below
	confirmed []bool
	bare      []time.Time // when messages came that nothing followed yet
	timed     bool        // a timer will look after them
}

func (w *watcher) hear(i int, h hub.Heard) {
	switch {
	case h.Live:
		if w.listening(i) {
			w.notify(lock.Notice{What: lock.NoticeListening})
		}
	case h.Deaf:
		w.notify(lock.Notice{What: lock.NoticeDeaf})
	case i == len(w.channels)-1:
		w.news(parseNews(h.Message))
	case h.Message != echo:
		w.keep()
	}
}

// listening says whether a confirmation was the last one. Each channel is confirmed by itself, at first and after each
// interruption; the last one finds all others live.
func (w *watcher) listening(i int) bool {
	w.mu.Lock()
	w.confirmed[i] = true
	for _, ok := range w.confirmed {
		if !ok {
			w.mu.Unlock()
			return false
		}
	}
	w.mu.Unlock()
	return w.hub.AllLive(w.channels)
}

// news passes the end of a hold on, unless it was told already that something ended, for lack of news.
func (w *watcher) news(m tidings) {
	if m.told {
		w.mu.Lock()
		last := len(w.bare) - 1
		if last < 0 {
			w.mu.Unlock()
			return
		}
		w.bare = w.bare[:last]
		w.mu.Unlock()
	}
	cause, ended := endCauses[m.what]
	if !ended {
		return
	}
	n := lock.Notice{What: lock.NoticeEnded, Cause: cause, Fence: lock.Fence(m.number)}
	if strings.HasPrefix(m.who, permitWord) {
		n.Hold = m.who
	}
	w.notify(n)
}

// keep keeps a message until it is known what it means.
func (w *watcher) keep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bare = append(w.bare, time.Now())
	if !w.timed {
		w.timed = true
		time.AfterFunc(Grace, w.ask)
	}
}

// ask has the messages told that no news follow.
func (w *watcher) ask() {
	w.mu.Lock()
	w.timed = len(w.bare) > 0
	timed, asked := w.timed, time.Now()
	w.mu.Unlock()
	if timed {
		w.hub.Passed(func() { w.tellBare(asked) })
	}
}

// tellBare tells of the messages that no news followed: all that Redis sent behind them until then was heard.
func (w *watcher) tellBare(asked time.Time) {
	w.mu.Lock()
	n := 0
	for n < len(w.bare) && asked.Sub(w.bare[n]) >= Grace/2 {
		n++
	}
	came := w.bare[:n]
	w.bare = w.bare[n:]
	if w.timed = len(w.bare) > 0; w.timed {
		time.AfterFunc(Grace, w.ask)
	}
	w.mu.Unlock()
	for _, at := range came {
		w.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Came: at})
	}
}
