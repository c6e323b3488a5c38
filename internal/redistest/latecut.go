package redistest

import (
	"bytes"
	"errors"
	"net"
	"os"
	"regexp"
	"slices"
	"time"
)

// LateCut breaks a connection as a network does that delivers late: what was sent on it arrives all the same, if the
// server still has the connection.
type LateCut struct {
	// On says whether it happens at a request of the connection with a name (CLIENT SETNAME).
	On func(name string, request []byte) bool
	// InTime is how much of that request arrives at once, 1 for all. The rest, and what follows, arrives Requests later.
	InTime   float64
	Requests time.Duration
	// Answers is how long no answer arrives.
	Answers time.Duration
	// Silent says that the client is not told that the connection broke. If the client keeps it, the connection goes on.
	Silent bool
}

// LateCounts say what became of connections that were cut.
type LateCounts struct {
	Cut, Pending int // all, and those of which something is still under way
	Kept         int // the client kept it
	Whole        int // all had arrived in time
	Ended        int // the server had ended it when the rest arrived
	Done         int // the server did what arrived late
	// Overtaken is how many of those were done after a script was answered on a later connection with the same name.
	Overtaken int
}

// cuts are what a Proxy knows of its connections.
type cuts struct {
	next     *LateCut
	counts   LateCounts
	links    int
	answered []*link // scripts
}

// link is a connection through a Proxy.
type link struct {
	client, server net.Conn
	nth            int           // of all
	over           chan struct{} // closed when there will be no more answers

	// Guarded by Proxy.mu.
	name       string
	asked      bool      // a script
	answeredAt time.Time // when the first script was
	silence    time.Time // until then no answer is passed on
	late       time.Time // when something arrived late, of which the client does not want to know any more
}

func (p *Proxy) link(client, server net.Conn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts.links++
	return &link{client: client, server: server, nth: p.cuts.links, over: make(chan struct{})}
}

// CutLate cuts one connection, at the next request for which c.On is true. nil takes back a cut that has not happened.
func (p *Proxy) CutLate(c *LateCut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts.next = c
}

// LateCounts say what became of all cuts.
func (p *Proxy) LateCounts() LateCounts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts.counts
}

// Spare keeps connections from being ended by their ids, from now on: CLIENT KILL ID gets an id that does not exist.
func (p *Proxy) Spare() { p.spares.Store(true) }

// They are looked for in all that passes, in upper or lower case as lockd and go-redis send them. To ignore case would
// cost more than all else that tests do with a proxy.
var (
	setName = regexp.MustCompile(`setname\r\n\$\d+\r\n([^\r]+)\r\n`)
	killID  = regexp.MustCompile(`(\r\nkill\r\n\$2\r\n(?i:id)\r\n)\$\d+\r\n\d+\r\n`)
)

func spared(request []byte) []byte {
	return killID.ReplaceAll(request, []byte("${1}$$15\r\n999999999999999\r\n"))
}

// cutOn says whether a connection is to be cut at a request, and how.
func (p *Proxy) cutOn(l *link, request []byte) (c *LateCut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.name == "" {
		if name := setName.FindSubmatch(request); name != nil {
			l.name = string(name[1])
		}
	}
	l.asked = l.asked || bytes.Contains(request, []byte("evalsha"))
	if c = p.cuts.next; c == nil || !c.On(l.name, request) {
		return nil
	}
	p.cuts.next = nil
	p.cuts.counts.Cut++
	p.cuts.counts.Pending++
	l.silence = time.Now().Add(c.Answers)
	return c
}

// lateEcho is a command that is sent behind what arrives late: if it is answered, that was done.
const (
	lateDone = "done late"
	lateEcho = "*2\r\n$4\r\necho\r\n$9\r\n" + lateDone + "\r\n"
)

// pass makes a request arrive late, with all that follows it on its connection. It says whether the connection goes on.
func (p *Proxy) pass(l *link, c *LateCut, request []byte) (goesOn bool) {
	at := time.Now().Add(c.Requests)
	inTime := int(c.InTime * float64(len(request)))
	_, _ = l.server.Write(request[:inTime]) // what fails does so later, too
	rest := request[inTime:]
	if !c.Silent {
		_ = l.client.Close()
	}
	rest, goesOn = readUntil(l.client, at, rest)
	if goesOn {
		p.count(func(n *LateCounts) { n.Pending--; n.Kept++ })
		_, err := l.server.Write(rest)
		return err == nil
	}
	if len(rest) == 0 { // it may even be answered
		p.count(func(n *LateCounts) { n.Pending--; n.Whole++ })
		return false
	}
	p.deliverLate(l, at, rest)
	p.count(func(n *LateCounts) { n.Pending-- })
	return false
}

// deliverLate delivers what its client has given up, unless the server ends the connection before.
func (p *Proxy) deliverLate(l *link, at time.Time, rest []byte) {
	select {
	case <-time.After(time.Until(at)):
	case <-l.over:
		p.count(func(n *LateCounts) { n.Ended++ })
		return
	case <-p.ends:
		return
	}
	p.count(func(*LateCounts) { l.late = time.Now() })
	_, _ = l.server.Write(append(rest, lateEcho...))
	_ = l.server.(*net.TCPConn).CloseWrite() // either may fail: the server ends it just now
	select {
	case <-l.over:
	case <-p.ends:
	}
}

// readUntil adds what a client sends until a time, and says whether its connection is still there then.
func readUntil(client net.Conn, at time.Time, sent []byte) (all []byte, there bool) {
	_ = client.SetReadDeadline(at)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		sent = append(sent, buf[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return sent, client.SetReadDeadline(time.Time{}) == nil
		} else if err != nil {
			return sent, false
		}
	}
}

func (p *Proxy) count(f func(*LateCounts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.cuts.counts)
}

// heard notes an answer, and says for how long it is not passed on.
func (p *Proxy) heard(l *link, answer []byte) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.asked && l.answeredAt.IsZero() {
		l.answeredAt = time.Now()
		p.cuts.answered = append(p.cuts.answered, l)
	}
	if !l.late.IsZero() && bytes.Contains(answer, []byte(lateDone)) {
		p.cuts.counts.Done++
		if p.overtakenLocked(l) {
			p.cuts.counts.Overtaken++
		}
	}
	return time.Until(l.silence)
}

// overtakenLocked says whether a script was answered on a later connection before something arrived late on this one.
func (p *Proxy) overtakenLocked(l *link) bool {
	return slices.ContainsFunc(p.cuts.answered, func(other *link) bool {
		return other.name == l.name && other.nth > l.nth && other.answeredAt.Before(l.late)
	})
}
