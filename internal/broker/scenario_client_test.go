package broker_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// player is a client of a scenario.
type player struct {
	*client
	name   string
	stop   func()                     // its heartbeats
	epoch  uint64                     // of its stream
	before *client                    // that it was before it resumed
	had    []session.Hold             // ever
	holds  []session.HeldLock         // and believes so
	asked  []uint64                   // its last Acquire, and those in whose place that came
	takes  map[uint64]request.Acquire // its requests
	leaves map[uint64]session.Hold    // its releases
	heard  map[string]bool            // ends of holds
}

// hear has each session say what it was told.
func (s *scenario) hear() {
	s.before = maps.Clone(s.fences)
	for _, c := range s.clients {
		for _, e := range c.events() {
			if text := s.text(c, e); text != "" {
				s.say("%s %s", c.name, text)
			}
		}
	}
	synctest.Wait()
	for _, name := range slices.Sorted(maps.Keys(s.callers)) {
		s.said = append(s.said, s.callers[name].hear()...)
	}
}

func (s *scenario) text(c *player, e session.Event) string {
	switch e := e.(type) {
	case session.Granted:
		return s.granted(c, e)
	case session.Queued:
		return fmt.Sprint("queued ", e.Position)
	case session.NotGranted:
		return s.refused(e)
	case session.Released:
		c.released(e)
		s.until[c.leaves[e.ID]] = e.Validity.Until
		return strings.TrimSuffix(fmt.Sprint("released, keeps ", e.Remaining), ", keeps 0")
	case session.Extended:
		h := c.leaves[e.ID]
		s.until[h] = e.Validity.Until
		return "extended"
	case session.LimitSet:
		return fmt.Sprint("limit was ", e.Previous)
	case session.AtRisk:
		return "at risk"
	case session.Safe:
		return "safe"
	case session.Lost:
		c.holds = slices.DeleteFunc(c.holds, func(h session.HeldLock) bool { return h.Hold == e.Hold })
		return strings.TrimSpace(fmt.Sprint("lost ", e.Hold.Name, " ", e.Reason, " ", e.Forced.By, " ", e.Forced.Why))
	case session.Unlocked:
		return s.heard(c, e)
	case session.Done:
		return "done"
	case session.Looked:
		return s.looked(e)
	case session.HoldList:
		return s.held(c, e)
	case session.HeartbeatAck:
		return ""
	case session.Failed:
		if limit, ok := errors.AsType[*lock.LimitError](e.Err); ok {
			return fmt.Sprint("failed limit ", limit.Limit)
		}
		if quota, ok := errors.AsType[*session.QuotaError](e.Err); ok {
			return fmt.Sprint("failed quota ", quota.Subject, " ", quota.Limit)
		}
		return "failed " + failureOf(e.Err)
	default:
		return fmt.Sprintf("%T", e)
	}
}

// failures are the errors that are told, and their words. One that others wrap comes first.
var failures = []struct {
	error
	word string
}{
	{lock.ErrHeld, "held"},
	{session.ErrTimedOut, "timed out"},
	{session.ErrCancelled, "cancelled"},
	{lock.ErrOutcomeUnknown, "unknown"},
	{lock.ErrNoQuorum, "quorum"},
	{lock.ErrStoreFull, "full"},
	{lock.ErrUnavailable, "unavailable"},
	{lock.ErrNotHeld, "not held"},
	{lock.ErrStale, "stale"},
	{lock.ErrInvalid, "invalid"},
	{session.ErrUpgrade, "upgrade"},
	{lock.ErrKindMismatch, "kind"},
	{session.ErrDeadlock, "deadlock"},
	{session.ErrQuota, "quota"},
	{session.ErrSuperseded, "superseded"},
	{session.ErrSessionExpired, "expired"},
	{session.ErrNotWaiting, "not waiting"},
	{session.ErrRepeated, "repeated"},
}

// failureOf is the word for an error.
func failureOf(err error) string {
	for _, f := range failures {
		if errors.Is(err, f.error) {
			return f.word
		}
	}
	return err.Error()
}

// granted remembers a grant. Its fence is greater than all before, but that of a hold that is counted up.
func (s *scenario) granted(c *player, e session.Granted) string {
	text := "granted"
	for _, h := range append([]session.Hold{e.Hold}, e.More...) {
		last := s.fences[h.Name]
		if h.Kind.Shared() { // several may be granted at once
			last = s.before[h.Name]
		}
		passedOn := c.takes[e.ID].InsteadOf != nil && h.Fence == last // with its place
		if e.Count == 1 && h.Fence <= last && !passedOn {
			s.fatalf("%q is granted with fence %d after %d", h.Name, h.Fence, last)
		}
		s.fences[h.Name] = max(s.fences[h.Name], h.Fence)
		c.granted(h, e)
		text += " " + h.Name
	}
	if !e.Validity.Until.After(time.Now()) {
		s.fatalf("granted %v after its end", time.Since(e.Validity.Until))
	}
	if e.Validity.Until.Before(s.until[e.Hold]) && e.Hold.Kind != lock.Read { // each read hold has a lease of its own
		s.fatalf("its validity was %v, and is %v", s.until[e.Hold], e.Validity.Until)
	}
	s.until[e.Hold] = e.Validity.Until
	if e.Count > 1 {
		text += fmt.Sprint(" count ", e.Count)
	}
	return text
}

// granted has a client believe that it holds something, perhaps once more.
func (c *player) granted(h session.Hold, e session.Granted) {
	c.had = append(c.had, h)
	c.holds = slices.DeleteFunc(c.holds, func(l session.HeldLock) bool { return l.Hold == h })
	l := session.HeldLock{Hold: h, Count: e.Count, Auto: e.Auto}
	if h.Kind == lock.Semaphore {
		l.Permits = max(c.takes[e.ID].Permits, 1)
	}
	c.holds = append(c.holds, l)
}

// released is the opposite.
func (c *player) released(e session.Released) {
	for i, l := range c.holds {
		switch {
		case l.Hold != c.leaves[e.ID]:
		case e.Remaining == 0:
			c.holds = slices.Delete(c.holds, i, i+1)
			return
		case l.Hold.Kind == lock.Semaphore:
			c.holds[i].Permits = e.Remaining
		default:
			c.holds[i].Count = e.Remaining
		}
	}
}

// request has a session ask for something.
func (s *scenario) request(c *player, verb string, words []string) {
	switch verb {
	case "acquire":
		req := s.acquireRequest(words)
		if slices.Contains(words, "again") {
			req.InsteadOf = c.asked
		} else {
			c.asked = nil
		}
		c.takes[c.lastID+1] = req
		c.asked = append(c.asked, c.acquire(req))
	case "cancel":
		c.Cancel(c.id(), c.asked[len(c.asked)-1])
	case "release":
		s.release(c, words)
	case "extend":
		s.extend(c, words)
	case "limit":
		c.SetLimit(c.id(), request.SetLimit{Name: words[0], Limit: uint32(s.number(words[1]))}) //nolint:gosec // small
	case "watch":
		c.Watch(c.id(), words[0])
	case "unwatch":
		c.Unwatch(c.id(), words[0])
	case "hear":
		c.Hear()
	case "look":
		c.Look(c.id(), strings.Join(words, " "))
	case "holds":
		c.ListHolds(c.id(), session.Page{Prefix: strings.Join(words, " "), Size: 2})
		time.Sleep(time.Second) // long lists make pauses
	case "leaves": // it comes back
		c.stop()
		c.Detach(errCut)
	case "forgets": // what it holds
		c.holds = nil
	case "breaks":
		c.End(errors.New("broken"))
	case "goodbye":
		c.Goodbye()
	case "old": // where it was before it resumed
		now := c.client
		c.client = c.before
		s.request(c, words[0], nil)
		c.client = now
	case "trusts":
		s.trusts(time.Until(s.until[s.hold(c, words[:1])]), words[1])
	default:
		s.fatalf("nobody knows %s", verb)
	}
}

// trusts checks that a hold is trusted for about the time in word, less the margin.
func (s *scenario) trusts(got time.Duration, word string) {
	if want := s.duration(word); got > want || got < want-want/50-3*time.Millisecond {
		s.fatalf("valid for %v, want about %v", got, want)
	}
}

// looked is what a session sees of a name.
func (s *scenario) looked(e session.Looked) string {
	if !e.Lock.Held {
		return "sees " + e.Lock.Name + " free"
	}
	if e.Lock.Fence != s.fences[e.Lock.Name] || e.Lock.TTL <= 0 {
		s.fatalf("sees %+v", e.Lock)
	}
	return fmt.Sprint("sees ", e.Lock.Name, " held by ", e.Lock.Holders)
}

// held is a page of what a session holds, and until when. The next ones follow.
func (s *scenario) held(c *player, e session.HoldList) string {
	text := "holds"
	for _, l := range e.Locks {
		s.until[l.Hold] = l.Validity.Until
		if l.Hold.Fence > s.fences[l.Hold.Name] {
			s.fatalf("holds %+v", l)
		}
		text += " " + words(l.Hold.Name, l.Hold.Kind.String(), lease(l.Auto), if0("permits", l.Permits),
			if0("more", l.Count-1)) + ","
	}
	if e.Next == "" {
		return text
	}
	c.ListHolds(c.id(), session.Page{After: e.Next, Size: 2})
	time.Sleep(time.Second)
	return text + " then " + s.held(c, one[session.HoldList](c.client))
}

// heard is the end of a hold that a session watches, and its cause. Something tells it from each other end.
func (s *scenario) heard(c *player, e session.Unlocked) string {
	key := fmt.Sprint(e.Name, " ", e.Fence, " ", e.Hold)
	if c.heard[key] && e.Cause != lock.EndUnknown {
		s.fatalf("%s hears %+v twice", c.name, e)
	}
	if e.Fence > s.fences[e.Name] {
		s.fatalf("%s hears of fence %d, and the last was %d", c.name, e.Fence, s.fences[e.Name])
	}
	c.heard[key] = true
	causes := map[lock.EndCause]string{
		lock.EndReleased: "released", lock.EndHandedOver: "handed over", lock.EndExpired: "expired",
		lock.EndForced: "forced", lock.EndDataLoss: "data_loss", lock.EndUnknown: "unknown",
	}
	return fmt.Sprint("hears ", e.Name, " ", causes[e.Cause])
}

// release releases a hold, or all of its permits but a number to keep.
func (s *scenario) release(c *player, words []string) {
	h, id := s.hold(c, words), c.id()
	c.leaves[id] = h
	if at := slices.Index(words, "keep"); at > 0 {
		c.ReleasePermits(id, request.Release{Hold: h, Keep: uint32(s.number(words[at+1]))}) //nolint:gosec // small
		return
	}
	c.Release(id, h)
}

// extend asks for another lease, or to have it renewed.
func (s *scenario) extend(c *player, words []string) {
	h, id := s.hold(c, words[:1]), c.id()
	c.leaves[id] = h
	req := request.Extend{Hold: h, MayShorten: slices.Contains(words, "shorten")}
	if at := slices.Index(words, "lease"); at > 0 {
		req.Lease = new(s.duration(words[at+1]))
	}
	c.Extend(id, req)
}

func (s *scenario) acquireRequest(words []string) request.Acquire {
	names, kind := strings.Split(words[0], "+"), lock.Exclusive
	if len(words) > 1 {
		if k, ok := s.kind(words[1]); ok {
			kind = k
			words = words[1:]
		}
	}
	req := allOf(kind, names...)
	for i, more := range names[1:] {
		name, other, mixed := strings.Cut(more, ":")
		if k, ok := s.kind(other); mixed && ok {
			req.More[i] = request.Item{Name: name, Kind: k}
		}
	}
	for i := 1; i < len(words); i++ {
		switch words[i] {
		case "try":
			req.Wait = new(time.Duration)
			continue
		case "again":
			continue
		}
		value := words[i+1]
		switch words[i] {
		case "wait":
			req.Wait = new(s.duration(value))
		case "lease":
			req.Lease = new(s.duration(value))
		case "holder":
			req.Holder = value
		case "actor":
			req.Actor = value
		case "note":
			if req.Annotation = value; value == "long" {
				req.Annotation = longNote
			}
		case "waited":
			req.Waited = s.duration(value)
		case "permits":
			req.Permits = uint32(s.number(value)) //nolint:gosec // small
		case "of":
			limit := &req.Limit
			for i := range req.More {
				if req.Kind != lock.Semaphore && req.More[i].Kind == lock.Semaphore {
					limit = &req.More[i].Limit
				}
			}
			*limit = uint32(s.number(value)) //nolint:gosec // small
		default:
			s.fatalf("nobody knows %s", words[i])
		}
		i++
	}
	return req
}

// hold is the last hold of a name that a session had, of a kind if one is given; or that another session had. If there
// was none it is made up.
func (s *scenario) hold(c *player, words []string) (h session.Hold) {
	h.Name, h.Kind = words[0], lock.Exclusive
	k, ok := lock.Kind(0), false
	if len(words) > 1 {
		if k, ok = s.kind(words[1]); ok {
			h.Kind = k
		}
	}
	if at := slices.Index(words, "of"); at > 0 {
		c = s.byName[words[at+1]]
	}
	for _, had := range c.had {
		if had.Name == words[0] && (!ok || had.Kind == k) {
			if h = had; slices.Contains(words, "first") {
				break
			}
		}
	}
	if at := slices.Index(words, "holder"); at > 0 {
		h.Holder = words[at+1]
	}
	if slices.Contains(words, "stale") {
		h.Fence--
	}
	return h
}
