package watch

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// Listen implements lock.Store.
func (l *Lookout) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	n := l.Prefix + name
	switch kind {
	case lock.Fair:
		return l.hub.Listen(layout.NewsChannel(n), turns(notify))
	case lock.Read, lock.Write:
		return l.hub.Listen(layout.RWChannel(n), released(notify))
	case lock.Semaphore:
		return l.hub.Listen(layout.PermitChannel(n), released(notify))
	default:
		return l.hub.Listen(layout.Channel(n), released(notify))
	}
}

// echo is the second message of a writer that left. It is for Redisson, see script/rw.lua.
const echo = "00"

// released tells of messages of any content.
func released(notify func(lock.Notice)) func(hub.Heard) {
	return func(h hub.Heard) {
		if !presence(h, notify) && h.Message != echo {
			notify(lock.Notice{What: lock.NoticeReleased})
		}
	}
}

// presence tells that a channel can be heard or not, if that is what was heard.
func presence(h hub.Heard, notify func(lock.Notice)) bool {
	switch {
	case h.Live:
		notify(lock.Notice{What: lock.NoticeListening})
	case h.Deaf:
		notify(lock.Notice{What: lock.NoticeDeaf})
	}
	return h.Live || h.Deaf
}

// turns tells of news to fair waiters.
func turns(notify func(lock.Notice)) func(hub.Heard) {
	return func(h hub.Heard) {
		if presence(h, notify) {
			return
		}
		if m := parseNews(h.Message); m.who != "" {
			notify(m.turn())
		}
	}
}

// ListenTurn implements lock.Store: Redisson has a channel for each waiter.
func (l *Lookout) ListenTurn(name string, o lock.Owner, notify func(lock.Notice)) (stop func()) {
	return l.hub.ListenBriefly(layout.WaiterChannel(l.Prefix+name, o), func(h hub.Heard) {
		if !presence(h, notify) {
			notify(lock.Notice{What: lock.NoticeReleased, For: o})
		}
	})
}

// tidings is a message on a name's news channel, see script/news.lua.
type tidings struct {
	what   string
	number uint64
	told   bool
	who    string
}

// tidingsTurn is what tidings say besides the ends of holds and "nothing": see script/news.lua.
const tidingsTurn = "turn"

// endCauses are those that script/news.lua names.
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
func (l *Lookout) ListenForced(notify func(name string)) (stop func()) {
	return l.hub.Listen(layout.Control, func(h hub.Heard) {
		if h.Live {
			notify("")
		}
		// Other databases and other prefixes are other people's.
		if name, ours := strings.CutPrefix(h.Message, l.forcedMark+l.Prefix); ours && name != "" {
			notify(name)
		}
	})
}
