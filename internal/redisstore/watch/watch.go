package watch

import (
	"strings"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// Watch implements lock.Store. The kind of the name is not known, so it listens to the channels of all kinds.
//
// Redisson's message says only that something was released. If lockd sent it, a message on the news channel follows
// that says which hold ended; else a hold of another program ended. Which of both it was is certain at the next look at
// the name, when all earlier messages were heard.
func (l *Lookout) Watch(name string, notify func(lock.Notice)) (stop func()) {
	n := l.Prefix + name
	channels := []string{layout.Channel(n), layout.RWChannel(n), layout.PermitChannel(n), layout.NewsChannel(n)}
	w := &watcher{hub: l.hub, channels: channels, notify: notify}
	stops := make([]func(), 0, len(channels)+1)
	stops = append(stops, l.tracker.follow(n, w))
	for i, channel := range channels {
		stops = append(stops, l.hub.Listen(channel, func(h hub.Heard) { w.hear(i, h) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

type watcher struct {
	hub      *hub.Hub
	channels []string // the news last
	notify   func(lock.Notice)

	mu    sync.Mutex // guards the fields below
	lives int        // how often any channel was confirmed
	bare  int        // messages of Redisson's channels without news yet
}

func (w *watcher) hear(i int, h hub.Heard) {
	switch {
	case h.Live:
		// Each channel is confirmed by itself, at first and after each interruption. The last one finds all others live.
		w.mu.Lock()
		w.lives++
		all := w.lives >= len(w.channels)
		w.mu.Unlock()
		if all && w.hub.AllLive(w.channels) {
			w.notify(lock.Notice{What: lock.NoticeListening})
		}
	case h.Deaf:
		w.notify(lock.Notice{What: lock.NoticeDeaf})
	case i == len(w.channels)-1:
		w.news(parseNews(h.Message))
	case h.Message != echo:
		w.mu.Lock()
		w.bare++
		w.mu.Unlock()
		w.notify(lock.Notice{What: lock.NoticeChanged})
	}
}

func (w *watcher) news(m tidings) {
	if m.told {
		w.mu.Lock()
		w.bare = max(w.bare-1, 0)
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

// tellBare tells the messages without news as releases by other programs, once all that Redis sent before was heard.
func (w *watcher) tellBare() {
	w.mu.Lock()
	n := w.bare
	w.bare = 0
	w.mu.Unlock()
	for range n {
		w.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased})
	}
}
