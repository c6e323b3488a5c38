package console

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What open pages may cost.
const (
	mostOpen   = 1000
	mostOfOne  = 600                   // of these of one client; without a clients file, of everybody
	leastTick  = time.Second           // from one look to the next
	eachAdds   = 10 * time.Millisecond // the next look is no sooner than this for each open page: 100 are told in a second
	restate    = 15 * time.Second      // a page is told all again, as times that run may have changed
	sendTime   = 10 * time.Second      // that a page may take to read
	streamTime = 2 * time.Minute       // then the page asks again, with the cookie that it has then
)

// openPages counts pages.
type openPages struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int
}

// enter counts one page more, if there is room. Else it says why not.
func (o *openPages) enter(of string) (why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.all >= mostOpen:
		return fmt.Sprintf("this replica has %d open pages, and no more than these", mostOpen)
	case o.of[of] >= mostOfOne:
		return fmt.Sprintf("you have %d open pages at this replica, and no more than these", mostOfOne)
	}
	o.all++
	o.of[of]++
	return ""
}

func (o *openPages) leave(of string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all--
	if o.of[of]--; o.of[of] == 0 {
		delete(o.of, of)
	}
}

// tick is how long each page waits until its next look.
func (o *openPages) tick() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(leastTick, time.Duration(o.all)*eachAdds)
}

// live sends the part of a page that changes, as Server-Sent Events, and a beat when it has not changed. Each time it
// asks again who looks, so that nobody goes on to see what is not his any more.
func (c *Console) live(v *view) handler {
	return func(w http.ResponseWriter, r *http.Request, a *asker) {
		if why := c.open.enter(a.client); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		defer c.open.leave(a.client)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		p := &page{c: c, v: v, r: r, control: http.NewResponseController(w), w: w}
		p.send("replica", []byte(c.cfg.Replica))
		ends := time.After(streamTime)
		for p.look(a) {
			select {
			case <-time.After(c.open.tick()):
			case <-r.Context().Done():
				return
			case <-ends:
				p.send("again", nil)
				return
			case <-c.closing.Done():
				p.send("gone", []byte("this replica is stopping"))
				return
			}
		}
	}
}

// page is one that is open.
type page struct {
	c       *Console
	v       *view
	r       *http.Request
	w       http.ResponseWriter
	control *http.ResponseController

	mark uint64 // of what it was told last
	told time.Time
}

// look sends the page what there is now, and says whether to go on.
func (p *page) look(was *asker) bool {
	switch a, err := p.c.identify(p.r); {
	case status.Code(err) == codes.Unauthenticated, err == nil && a.client != was.client:
		p.send("out", []byte("You are not logged in any more"))
		return false
	case err != nil:
		p.send("gone", []byte(explained(err)))
		return false
	}
	now := p.c.part(p.r.Context(), was, p.v, p.r.URL.Query())
	if now.mark == p.mark && time.Since(p.told) < restate {
		return p.send("beat", []byte(strconv.FormatInt(p.c.open.tick().Milliseconds(), 10)))
	}
	p.mark, p.told = now.mark, time.Now()
	return p.send("part", now.html)
}

// send sends an event, and says whether it went.
func (p *page) send(event string, text []byte) bool {
	_ = p.control.SetWriteDeadline(time.Now().Add(sendTime)) // Flush says if it cannot
	text = bytes.ReplaceAll(text, []byte("\n"), []byte("\ndata: "))
	_, _ = fmt.Fprintf(p.w, "event: %s\ndata: %s\n\n", event, text)
	return p.control.Flush() == nil
}
