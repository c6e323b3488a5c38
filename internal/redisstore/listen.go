package redisstore

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// Listen implements broker.Store. What is told to Redisson's fair waiters is heard as well.
func (s *Store) Listen(name string, kind broker.Kind, notify func(broker.Notice)) (stop func()) {
	n := s.prefix + name
	plain, fair := subject{name: channelKey(n)}, subject{name: waiterPattern(n), pattern: true}
	rw, permits := subject{name: rwChannel(n)}, subject{name: permitChannel(n)}
	switch kind {
	case broker.Exclusive:
		return s.hub.listen(plain, released(notify))
	case broker.Fair:
		return s.hub.listen(fair, turns(waiterStem(n), notify))
	case broker.Read, broker.Write:
		return s.hub.listen(rw, released(notify))
	case broker.Semaphore:
		return s.hub.listen(permits, released(notify))
	default:
		return s.hub.listenAll([]subject{plain, fair, rw, permits}, notify)
	}
}

// echo is the second message of a writer that left. It is for Redisson, see rw.lua.
const echo = "00"

// released tells of messages of any content.
func released(notify func(broker.Notice)) func(heard) {
	return func(h heard) {
		if h.live {
			notify(broker.Notice{What: broker.NoticeListening})
		} else if h.message != echo {
			notify(broker.Notice{What: broker.NoticeReleased})
		}
	}
}

// turns tells of messages to single waiters, whose channels begin with stem.
func turns(stem string, notify func(broker.Notice)) func(heard) {
	return func(h heard) {
		if h.live {
			notify(broker.Notice{What: broker.NoticeListening})
			return
		}
		n := broker.Notice{What: broker.NoticeReleased, For: broker.Owner(strings.TrimPrefix(h.channel, stem))}
		if after := turnAfter(h.message); after > 0 {
			n.What, n.After = broker.NoticeTurn, after
		}
		notify(n)
	}
}

// turnAfter is when the name will be free, from a message to a fair waiter; 0 if it may be free now.
func turnAfter(message string) time.Duration {
	const longest = int64(365 * 24 * time.Hour / time.Millisecond) // whatever others write
	ms, err := strconv.ParseInt(message, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(min(max(ms, 0), longest)) * time.Millisecond
}

// listenAll listens to several subjects as if they were one, for whatever may have freed a name.
func (h *hub) listenAll(subs []subject, notify func(broker.Notice)) (stop func()) {
	var mu sync.Mutex
	confirmed := make([]bool, len(subs))
	// Each listener is told of its own subject. The last one to be confirmed, at first and after each interruption, finds
	// all others live.
	listening := func(i int) bool {
		mu.Lock()
		confirmed[i] = true
		for _, ok := range confirmed {
			if !ok {
				mu.Unlock()
				return false
			}
		}
		mu.Unlock()
		return h.allLive(subs)
	}
	stops := make([]func(), len(subs))
	for i, sub := range subs {
		stops[i] = h.listen(sub, func(what heard) {
			switch {
			case what.live:
				if listening(i) {
					notify(broker.Notice{What: broker.NoticeListening})
				}
			case sub.pattern && turnAfter(what.message) > 0, what.message == echo: // nothing was released, or it was told
			default:
				notify(broker.Notice{What: broker.NoticeReleased})
			}
		})
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// ListenForced implements broker.Store. "" comes after the first subscription, too.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	return s.hub.listen(subject{name: controlChannel}, func(h heard) {
		if h.live {
			notify("")
			return
		}
		// Other databases and other prefixes are other people's.
		if name, ours := strings.CutPrefix(h.message, s.forcedMark+s.prefix); ours && name != "" {
			notify(name)
		}
	})
}
