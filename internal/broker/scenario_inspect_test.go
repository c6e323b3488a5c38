package broker_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// longNote is an annotation that is too long for lists.
var longNote = strings.Repeat("ä", 300)

// noted is what is told of an annotation.
func noted(told string) string { return if0("note", strings.Replace(told, longNote[:256], "cut", 1)) }

// inspect says who holds a name, and who waits for it: all, or at most most. All replicas tell the same.
func (s *scenario) inspect(name string, most int) {
	var told []string
	for _, at := range s.replicas {
		in, err := at.b.Inspect(s.t.Context(), name, most, most)
		s.check(err)
		if in.Answered != in.Asked {
			s.fatalf("%d of %d replicas answered", in.Answered, in.Asked)
		}
		var lines []string
		for _, h := range in.Holders {
			lines = append(lines, "held by "+s.holder(name, h))
		}
		for _, w := range in.Waiters {
			lines = append(lines, "waits "+s.waiter(w))
		}
		slices.Sort(lines)
		if told != nil && (len(lines) != len(told) || most >= 100 && !slices.Equal(lines, told)) { // else any of them
			s.fatalf("told %q and %q", lines, told)
		}
		told = lines
	}
	s.said = append(s.said, told...)
}

// words are those that are not empty.
func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(w string) bool { return w == "" }), " ")
}

// if0 is a text with a value, nothing without one.
func if0[T comparable](text string, value T) string {
	if value == *new(T) {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(text, " ", value))
}

func lease(auto bool) string {
	if auto {
		return "auto"
	}
	return "fixed"
}

func (s *scenario) holder(name string, h inspect.Holder) string {
	asSaid := h.Client.Name == "" || h.Client.Peer == h.Client.Name+":1" &&
		(h.Origin == inspect.OriginUnary || h.Client.Labels["name"] == h.Client.Name)
	if !asSaid || h.TTL <= 0 && h.TTL != lock.NoTTL ||
		h.Fence > s.fences[name] {
		s.fatalf("a holder is told as %+v", h)
	}
	origin := map[inspect.Origin]string{
		inspect.OriginUnary: "unary", inspect.OriginRedisson: "redisson", inspect.OriginOther: "other",
	}[h.Origin]
	return words(h.Client.Name, if0("at", h.Replica), origin, h.Kind.String(), lease(h.Auto), if0("permits", h.Permits),
		if0("for", h.Age), noted(h.Annotation))
}

func (s *scenario) waiter(w inspect.Waiter) string {
	if w.Peer != w.Client+":1" {
		s.fatalf("a waiter is told as %+v", w)
	}
	return words(w.Client, if0("at", w.Replica), w.Kind.String(), fmt.Sprint(w.Position), if0("for", w.Age),
		if0("left", w.TimeLeft), noted(w.Annotation))
}

// list says how many sessions, leases, waiters or names are listed, and whose they are. All replicas list the same, in
// small pages, in order and nothing twice.
func (s *scenario) list(what string, words []string) {
	var f inspect.Filter
	for pair := range slices.Chunk(words, 2) {
		switch pair[0] {
		case "prefix":
			f.Prefix = pair[1]
		case "client":
			f.Client = pair[1]
		case "replica":
			f.Replica = pair[1]
		case "age":
			f.MinAge = s.duration(pair[1])
		case "detached":
			f.Detached = true
		}
	}
	const size = 3
	var told []listed
	for _, at := range s.replicas {
		var all []listed
		for next, more := "", true; more; more = next != "" {
			var page []listed
			var asking inspect.Asking
			page, next, asking = s.page(at, what, f, next, size)
			if asking.Answered != asking.Asked || len(page) > size {
				s.fatalf("a page of %d, and %+v", len(page), asking)
			}
			all = append(all, page...)
		}
		if told != nil && !slices.Equal(all, told) {
			s.fatalf("listed %v and %v", all, told)
		}
		told = all
	}
	var whose []string
	for i, l := range told {
		if i > 0 && told[i-1].key >= l.key {
			s.fatalf("listed %v", told)
		}
		whose = append(whose, l.whose)
	}
	slices.Sort(whose)
	s.say("%d of %s", len(told), strings.Join(slices.Compact(whose), " "))
}

// listed is one line of a list.
type listed struct{ key, whose string }

// page is one of a list, which begins after something.
func (s *scenario) page(w *world, what string, f inspect.Filter, after string, size int) (
	page []listed, next string, asking inspect.Asking,
) {
	add := func(key, client, replica string) { page = append(page, listed{key, client + "@" + replica}) }
	var err error
	switch what {
	case "sessions":
		var all []inspect.Session
		all, next, asking, err = w.b.SessionsEverywhere(s.t.Context(), f, after, size)
		for _, one := range all {
			add(one.ID, one.Client.Name, one.Replica)
		}
	case "leases":
		var all []inspect.Leased
		all, next, asking, err = w.b.LeasesEverywhere(s.t.Context(), f, after, size)
		for _, l := range all {
			if len(l.Holder.Annotation) > 256 {
				s.fatalf("a list tells %+v", l)
			}
			add(l.Key, l.Holder.Client.Name, l.Holder.Replica)
		}
	case "waiters":
		var all []inspect.Waiter
		all, asking, err = w.b.WaitersEverywhere(s.t.Context(), f, size)
		for _, l := range all {
			add(l.Name+"\x00"+string(l.Owner), l.Client, l.Replica)
		}
	case "names":
		var all []inspect.Listed
		all, next, asking, err = w.b.NamesEverywhere(s.t.Context(), f.Prefix, after, 100)
		slices.SortFunc(all, func(a, b inspect.Listed) int { return strings.Compare(a.Lock.Name, b.Lock.Name) })
		for _, l := range all {
			text := words(l.Lock.Name, s.holder(l.Lock.Name, l.Holder), if0("waiters", l.Lock.Waiters))
			page = append(page, listed{l.Lock.Name, text + ";"})
		}
	}
	s.check(err)
	return page, next, asking
}

// stranger takes a name past all replicas.
func (s *scenario) stranger(words []string) {
	c := lock.Claim{Name: words[0], Owner: lock.Owner(words[2]), TTL: time.Minute}
	c.Kind, _ = s.kind(words[1])
	if c.Kind == lock.Semaphore {
		c.Permits = 1
	}
	g, err := lock.Await(s.t.Context(), s.store.Store.StartAcquire, c)
	s.check(err)
	s.fences[c.Name] = g.Fence
}

// drop loses the first place in the queue of the store.
func (s *scenario) drop(name string) {
	first, err := s.store.Queue(s.t.Context(), name, 1)
	s.check(err)
	s.check(s.store.Leave(s.t.Context(), name, lock.Fair, first))
}

// announce has all replicas told of a release by force to come, by whom and why.
func (s *scenario) announce(words []string) {
	holders, err := s.b.AnnounceForce(s.t.Context(), words[0], session.Forced{By: words[1], Why: words[2]})
	s.check(err)
	for _, h := range holders {
		s.say("to %s", s.holder(words[0], h))
	}
}

// refused says why a request was refused, by whose hold, and for how long it is to wait before the next one.
func (s *scenario) refused(e session.NotGranted) string {
	by := ""
	for _, c := range s.clients {
		if strings.HasPrefix(string(e.HeldBy), c.ID()+":") {
			by = c.name
		}
	}
	return words(failureOf(e.Cause), e.Name, if0("by", by), if0("known", e.Client), noted(e.Annotation),
		if0("again in", e.RetryAfter))
}

// nothingRemains ends all sessions. When their time is over nothing is left of them.
func (s *scenario) nothingRemains() {
	for _, c := range s.clients {
		c.stop()
		c.Goodbye()
	}
	time.Sleep(10 * time.Minute)
	for _, c := range s.clients {
		if c.events(); c.Residue() != "" {
			s.fatalf("%s keeps %s", c.name, c.Residue())
		}
	}
	for name, w := range s.replicas {
		if r := w.b.Residue(); r != "" {
			s.fatalf("%s keeps %s", name, r)
		}
	}
	held, _, err := s.store.List(s.t.Context(), "", "", 10)
	if s.check(err); len(held) > 0 {
		s.fatalf("left in the store: %+v", held)
	}
}

// look says what all replicas show of a name.
func (s *scenario) look(name string) {
	var all []string
	var infos []session.LockInfo
	count := uint32(0) // as the replica of its holder knows it
	for _, w := range s.replicas {
		i, err := w.b.Lock(s.t.Context(), name)
		s.check(err)
		infos, count = append(infos, i), max(count, i.Count)
	}
	for _, i := range infos {
		text := "free"
		if i.Held {
			text = "held"
		}
		for _, c := range s.clients {
			if strings.HasPrefix(string(i.Owner), c.ID()+":") {
				text += fmt.Sprintf(" by %s count %d kind %v", c.name, count, i.Kind)
			}
		}
		if i.Limit > 0 {
			text += fmt.Sprintf(" %d of %d", i.Holders, i.Limit)
		}
		if i.Held && i.Owner != "" && i.Fence != s.fences[name] && i.Kind != lock.Read {
			text += fmt.Sprintf(" fence %d, not %d", i.Fence, s.fences[name])
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	s.say("%s %s", name, strings.Join(all, " or "))
}

// ttl says for how much longer a name is held, or checks that this is more than something.
func (s *scenario) ttl(words []string) {
	for n, w := range s.replicas {
		i, err := w.b.Lock(s.t.Context(), words[0])
		s.check(err)
		switch {
		case len(words) > 1 && i.TTL <= s.duration(words[2]): // over
			s.fatalf("%v remain", i.TTL)
		case len(words) == 1 && n == "here":
			s.say("%v", i.TTL)
		}
	}
}

func (s *scenario) waiters(name string) {
	in, err := s.b.Inspect(s.t.Context(), name, 1, 100)
	s.check(err)
	text := ""
	for _, i := range in.Waiters {
		for _, c := range s.clients {
			if i.Session == c.ID() {
				text += fmt.Sprintf(" %s %d", c.name, i.Position)
			}
		}
	}
	s.say("waiters%s", text)
}
