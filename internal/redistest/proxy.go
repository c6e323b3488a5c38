package redistest

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Mode is what a Proxy does with replies. Requests always reach the server, but for Deaf.
type Mode int32

// The modes.
const (
	// Pass lets replies through.
	Pass Mode = iota
	// Cut ends the connection instead of passing a reply on: the request was executed, nobody knows.
	Cut
	// LoseReplies swallows replies and keeps the connection.
	LoseReplies
	// Stall makes a connection silent with its next reply, for good: as if the network lost one direction.
	Stall
	// Deaf swallows a request, and all that follow on its connection: the other direction.
	Deaf
)

// Proxy stands between a client and a server and loses replies, or requests.
type Proxy struct {
	// Addr is where clients connect to.
	Addr string

	target string
	listen net.Listener
	mode   atomic.Int32
	delay  atomic.Int64 // of replies
	stall  atomic.Int32 // how many replies are still to be swallowed, each with all that follow it on its connection
	spares atomic.Bool
	ends   chan struct{} // closed by close
	wg     sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	open   map[net.Conn]struct{}
	closed bool
	late   late
	cuts   cuts
}

// late is what a Proxy holds back.
type late struct {
	which func(request []byte) bool // nil if nothing is
	held  int                       // connections that are
	over  chan struct{}             // closed when it is delivered; nil before anything is held back
	gone  *sync.WaitGroup           // of those connections: the server has what was held back
}

// StartProxy runs a Proxy before a server until the test ends.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, listen: l, open: map[net.Conn]struct{}{}}
	p.ends = make(chan struct{})
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Set changes the mode, for replies from now on.
func (p *Proxy) Set(m Mode) { p.mode.Store(int32(m)) }

// Delay makes replies come later by d, from now on, as from a server far away. The order is kept.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// CutAll ends all connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// StallOne makes the connection with the next reply silent for good; the others go on.
func (p *Proxy) StallOne() { p.stall.Add(1) }

// Hold makes connections stand still, from now on: the first request of each for which which is true is held back with
// all that follow, also if the client hangs up. Deliver passes them on.
func (p *Proxy) Hold(which func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late{which: which, over: make(chan struct{}), gone: new(sync.WaitGroup)}
}

// Held is on how many connections something is held back.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late.held
}

// Deliver passes on what was held back, and holds nothing back any more. When it returns the server can read it.
func (p *Proxy) Deliver() {
	p.mu.Lock()
	gone := p.late.gone
	p.deliverLocked()
	p.mu.Unlock()
	if gone != nil {
		gone.Wait()
	}
}

func (p *Proxy) deliverLocked() {
	if p.late.over != nil {
		close(p.late.over)
	}
	p.late = late{}
}

// hold holds a request back, if Hold asked for that. Call passed when the request was passed on.
func (p *Proxy) hold(request []byte) (passed func()) {
	p.mu.Lock()
	l := p.late
	if l.which == nil || !l.which(request) {
		p.mu.Unlock()
		return func() {}
	}
	p.late.held++
	l.gone.Add(1)
	p.mu.Unlock()
	<-l.over
	return l.gone.Done
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			return
		}
		l := p.link(client, server)
		p.wg.Go(func() {
			defer p.hangUp(client, server)
			p.requests(l)
		})
		p.wg.Go(func() {
			defer p.hangUp(client, server)
			defer close(l.over)
			p.replies(l)
		})
	}
}

// requests passes requests on, or not.
func (p *Proxy) requests(l *link) {
	buf := make([]byte, 64<<10)
	deaf := false
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		if deaf = deaf || Mode(p.mode.Load()) == Deaf; deaf {
			continue
		}
		request := buf[:n]
		if p.spares.Load() {
			request = spared(request)
		}
		passed := p.hold(request)
		goesOn := p.passOn(l, request)
		passed()
		if !goesOn {
			return
		}
	}
}

// passOn passes a request on, now or late, and says whether its connection goes on.
func (p *Proxy) passOn(l *link, request []byte) bool {
	if c := p.cutOn(l, request); c != nil {
		return p.pass(l, c, slices.Clone(request))
	}
	_, err := l.server.Write(request)
	return err == nil
}

// reply is what the server sent, and when it is passed on.
type reply struct {
	bytes []byte
	at    time.Time
}

// replies passes replies on, or not.
func (p *Proxy) replies(l *link) {
	buf := make([]byte, 64<<10)
	stalled := false
	later := make(chan reply, 1024)
	defer close(later)
	p.wg.Go(func() {
		for r := range later {
			p.sleepUntil(r.at)
			_, _ = l.client.Write(r.bytes) // the connection may be gone
		}
	})
	for {
		n, err := l.server.Read(buf)
		if err != nil {
			return
		}
		if !stalled && p.stall.Load() > 0 && p.stall.Add(-1) >= 0 {
			stalled = true
		}
		silence := p.heard(l, buf[:n])
		mode := Mode(p.mode.Load())
		stalled = stalled || mode == Stall
		switch {
		case stalled || mode == LoseReplies:
		case mode == Cut:
			return
		default:
			later <- reply{slices.Clone(buf[:n]), time.Now().Add(max(time.Duration(p.delay.Load()), silence))}
		}
	}
}

// sleepUntil sleeps until a time, or until the proxy is closed.
func (p *Proxy) sleepUntil(t time.Time) {
	select {
	case <-time.After(time.Until(t)):
	case <-p.ends:
	}
}

// track remembers connections for close. It says no if the proxy is closed already.
func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.closed {
			_ = c.Close()
		}
		p.open[c] = struct{}{}
	}
	return !p.closed
}

func (p *Proxy) hangUp(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.open, c)
	}
}

func (p *Proxy) close() {
	_ = p.listen.Close()
	p.mu.Lock()
	p.closed = true
	close(p.ends)
	p.deliverLocked()
	for c := range p.open {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}
