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

// released takes each message for a release, whatever it says, but for an echo.
func released(notify func(lock.Notice)) func(hub.Heard) {
	return func(h hub.Heard) {
		if !presence(h, notify) && h.Message != echo {
			notify(lock.Notice{What: lock.NoticeReleased})
		}
	}
}

// presence passes on whether the channel is heard. It returns false for a message.
func presence(h hub.Heard, notify func(lock.Notice)) bool {
	switch {
	case h.Live:
		notify(lock.Notice{What: lock.NoticeListening})
	case h.Deaf:
		notify(lock.Notice{What: lock.NoticeDeaf})
	}
	return h.Live || h.Deaf
}

// turns passes on the news for fair waiters.
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

// endCauses has the causes by what script/news.lua calls them.
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

// turn is the notice for the fair waiter that the message names.
func (m tidings) turn() lock.Notice {
	const longest = uint64(365 * 24 * time.Hour / time.Millisecond) // whatever others write
	n := lock.Notice{What: lock.NoticeReleased, For: lock.Owner(m.who)}
	if m.what == tidingsTurn && m.number > 0 {
		n.What, n.After = lock.NoticeTurn, time.Duration(min(m.number, longest))*time.Millisecond //nolint:gosec // bounded
	}
	return n
}

// ListenForced implements lock.Store. It calls notify with "" after the first subscription, too.
func (l *Lookout) ListenForced(notify func(name string)) (stop func()) {
	return l.hub.Listen(layout.Control, func(h hub.Heard) {
		if h.Live {
			notify("")
		}
		// The channel also has the names of other databases and prefixes.
		if name, ours := strings.CutPrefix(h.Message, l.forcedMark+l.Prefix); ours && name != "" {
			notify(name)
		}
	})
}
