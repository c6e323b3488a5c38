package console

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// What open pages may cost.
const (
	mostOpen  = 1000
	mostOfOne = 600                   // of these of one client, or of one address where there are no clients
	leastTick = time.Second           // from one look to the next
	eachAdds  = 10 * time.Millisecond // to that, for each page that is open: 100 are told in a second
	restate   = 15 * time.Second      // a page is told all again, as times that run may have changed
	sendTime  = 10 * time.Second      // that a page may take to read
)

// openPages counts pages.
type openPages struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int
}

func newOpenPages() *openPages { return &openPages{of: map[string]int{}} }

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

// live sends the part of a page that changes whenever it did, and a beat when it did not, as Server-Sent Events. It is
// asked each time who looks, so that nobody goes on to see what is not his any more.
func (c *Console) live(w http.ResponseWriter, r *http.Request, a asker, v *view) {
	of := a.client
	if why := c.open.enter(of); why != "" {
		http.Error(w, why, http.StatusServiceUnavailable)
		return
	}
	defer c.open.leave(of)
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{}) // else the request would end with it
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send := func(event string, text []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(sendTime))
		_, err := w.Write(message(event, text))
		return err == nil && rc.Flush() == nil
	}
	var mark uint64
	var told time.Time
	for q := r.URL.Query(); ; {
		a.ctx, _ = c.as(r) // a login may be over
		if client, err := c.services.Who(a.ctx); err != nil || client != a.client {
			send("gone", []byte("you are not logged in any more"))
			return
		}
		tick := c.open.tick()
		p, err := c.part(a, v, q)
		if err != nil {
			p = c.failed(err)
		}
		event, text := "beat", []byte(tick.String())
		if p.mark != mark || time.Since(told) > restate {
			event, text = "part", p.html
			mark, told = p.mark, time.Now()
		}
		if !send(event, text) {
			return
		}
		select {
		case <-time.After(tick):
		case <-r.Context().Done():
			return
		case <-c.closing.Done():
			send("gone", []byte("this replica is stopping"))
			return
		}
	}
}

// message is one event.
func message(event string, text []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(text) + 64)
	out.WriteString("event: " + event + "\n")
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		out.WriteString("data: ")
		out.Write(bytes.TrimRight(line, "\r"))
		out.WriteByte('\n')
	}
	out.WriteByte('\n')
	return out.Bytes()
}
