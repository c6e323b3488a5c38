package redisstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Listen implements lock.Store.
func (s *Store) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	n := s.prefix + name
	switch kind {
	case lock.Fair:
		return s.hub.listen(newsChannel(n), turns(notify))
	case lock.Read, lock.Write:
		return s.hub.listen(rwChannel(n), released(notify))
	case lock.Semaphore:
		return s.hub.listen(permitChannel(n), released(notify))
	default:
		return s.hub.listen(channelKey(n), released(notify))
	}
}

// echo is the second message of a writer that left. It is for Redisson, see rw.lua.
const echo = "00"

// released tells of messages of any content.
func released(notify func(lock.Notice)) func(heard) {
	return func(h heard) {
		if !presence(h, notify) && h.message != echo {
			notify(lock.Notice{What: lock.NoticeReleased})
		}
	}
}

// presence tells that a channel can be heard or not, if that is what was heard.
func presence(h heard, notify func(lock.Notice)) bool {
	switch {
	case h.live:
		notify(lock.Notice{What: lock.NoticeListening})
	case h.deaf:
		notify(lock.Notice{What: lock.NoticeDeaf})
	}
	return h.live || h.deaf
}

// turns tells of news to fair waiters.
func turns(notify func(lock.Notice)) func(heard) {
	return func(h heard) {
		if presence(h, notify) {
			return
		}
		if m := parseNews(h.message); m.who != "" {
			notify(m.turn())
		}
	}
}

// ListenTurn implements lock.Store: Redisson has a channel for each waiter.
func (s *Store) ListenTurn(name string, o lock.Owner, notify func(lock.Notice)) (stop func()) {
	return s.hub.listenBriefly(waiterChannel(s.prefix+name, o), func(h heard) {
		if !presence(h, notify) {
			notify(lock.Notice{What: lock.NoticeReleased, For: o})
		}
	})
}

// tidings is a message on a name's news channel, see news.lua.
type tidings struct {
	what   string
	number uint64
	told   bool
	who    string
}

// What tidings say, besides the ends of holds.
const (
	tidingsNothing = "nothing"
	tidingsTurn    = "turn"
)

// endCauses are those that news.lua names.
var endCauses = map[string]lock.EndCause{
	"released": lock.EndReleased, "handed": lock.EndHandedOver, "forced": lock.EndForced,
}

func parseNews(message string) tidings {
	words := strings.SplitN(message, " ", 4)
	if len(words) < 4 {
		return tidings{}
	}
	number, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		number = 0
	}
	return tidings{what: words[0], number: number, told: words[2] == "1", who: words[3]}
}

// turn is what the waiter is told.
func (m tidings) turn() lock.Notice {
	const longest = uint64(365 * 24 * time.Hour / time.Millisecond) // whatever others write
	n := lock.Notice{What: lock.NoticeReleased, For: lock.Owner(m.who)}
	if m.what == tidingsTurn && m.number > 0 {
		n.What, n.After = lock.NoticeTurn, time.Duration(min(m.number, longest))*time.Millisecond //nolint:gosec // bounded
	}
	return n
}

// ListenForced implements lock.Store. "" comes after the first subscription, too.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	return s.hub.listen(controlChannel, func(h heard) {
		if h.live {
			notify("")
		}
		// Other databases and other prefixes are other people's.
		if name, ours := strings.CutPrefix(h.message, s.forcedMark+s.prefix); ours && name != "" {
			notify(name)
		}
	})
}
