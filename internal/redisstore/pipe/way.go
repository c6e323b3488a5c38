package pipe

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// dialed is the outcome of an attempt to connect.
type dialed struct {
	begun time.Time
	conn  *conn
	err   error
}

// runner has a connection until the pipeline is closed. While it has none it makes one, whether or not anybody waits
// for it. Jobs are sent on the connection of one runner, the leading one; those of the others are spare.
type runner struct {
	*Pipeline
	made   time.Time     // when the last connection was made
	paused time.Duration // the pause before that attempt
}

func (p *runner) run() {
	for c := p.connect(); c != nil; c = p.connect() {
		p.use(c)
		p.dialer.Unended.add(c)
		for _, s := range c.under {
			p.end(s, c.why)
		}
	}
}

// use uses a connection until it is lost, or until the pipeline is closed and all was answered.
func (p *Pipeline) use(c *conn) {
	var reader sync.WaitGroup
	reader.Go(func() { p.read(c) })
	if p.lead(c) {
		p.connected(true)
		p.write(c)
		p.connected(false)
		<-p.leading
	}
	_ = c.fail(ErrClosed) // if nothing else was wrong
	reader.Wait()
}

// lead waits until c is the leading connection. It returns false if c is lost before, or the pipeline is closed. When
// the leading connection is lost, a spare one must answer a PING before it leads, because the same cause may have
// silenced it.
func (p *Pipeline) lead(c *conn) bool {
	for lives := true; lives; lives = p.lives(c) {
		select {
		case p.leading <- struct{}{}:
			return true
		default:
		}
		select {
		case p.leading <- struct{}{}:
			<-p.leading
		case <-c.gone:
			return false
		case <-p.closing:
			return false
		}
	}
	return false
}

// lives says whether a spare connection answers a PING. If it does not, it is lost when the time of the PING is over.
func (p *Pipeline) lives(c *conn) bool {
	answered := make(chan error, 1)
	ping := Job{Cmd: redis.NewCmd(context.Background(), "ping"), Done: func(err error) { answered <- err }}
	c.enter()
	c.send(p.sending(c, batch{jobs: []Job{ping}, sent: time.Now()}))
	select {
	case <-answered:
		return true
	case <-c.gone:
	case <-p.closing:
	}
	return false
}

// write sends what is queued on a connection.
func (p *Pipeline) write(c *conn) {
	for c.enter() {
		s := p.next(c)
		if s == nil {
			<-c.slots
			break
		}
		c.send(s)
	}
	for range cap(c.slots) { // until all is answered
		c.enter()
	}
}

// next waits for a batch to send. It is nil if the connection is lost, or if the pipeline is closed and nothing waits.
func (p *Pipeline) next(c *conn) *sent {
	for closing := p.closing; c.usable(); {
		if now := time.Now(); now.Sub(p.checked) >= p.Timeout/checkParts {
			p.checked = now
			p.failWaited()
		}
		if b := p.take(); len(b.jobs) > 0 {
			return p.sending(c, b)
		}
		waits, pause := p.held()
		if closing == nil && !waits {
			break
		}
		var rested <-chan time.Time
		if pause > 0 {
			rested = time.After(pause)
		}
		select {
		case <-p.wake:
		case <-rested:
		case <-closing:
			closing = nil
		case <-c.gone:
		}
	}
	return nil
}

// held says whether any job waits, and for how long those of heavy tenants have to rest.
func (p *Pipeline) held() (waits bool, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.n+len(p.probes) > 0, p.queue.pause(time.Now())
}

// read reads the answers on a connection and tells them, until the connection is lost.
func (p *Pipeline) read(c *conn) {
	for {
		_, err := c.in.Peek(1) // it returns at once if the server hangs up
		s := c.first()
		if err == nil && s == nil {
			err = fmt.Errorf("%w: nobody asked for it", errMalformed)
		}
		if err == nil {
			err = s.receive(c)
		}
		if err != nil {
			_ = c.fail(err)
			return
		}
		c.answered()
		p.end(s, nil)
	}
}

// connect makes a connection, with as many attempts as it takes. It is nil if the pipeline is closed. Meanwhile it
// fails jobs that have waited too long.
func (p *runner) connect() *conn {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	check := time.NewTicker(max(p.Timeout/checkParts, time.Millisecond))
	defer check.Stop()
	coming, pause := make(chan dialed, 1), p.pauseBefore()
	dial := func() {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		d := dialed{begun: time.Now()}
		d.conn, d.err = p.dialer.dial(ctx, p.window())
		coming <- d
	}
	select {
	case <-p.closing:
		return nil
	default:
		go dial()
	}
	for {
		select {
		case d := <-coming:
			if d.err == nil {
				p.made, p.paused = time.Now(), pause
				return d.conn
			}
			p.refused(d.begun, d.err)
			pause = longer(pause)
			go dial()
		case <-check.C:
			p.failWaited()
		case <-p.closing:
			stop()
			if d := <-coming; d.err == nil {
				_ = d.conn.fail(ErrClosed)
			}
			return nil
		}
	}
}

func longer(pause time.Duration) time.Duration { return min(max(2*pause, firstRedial), lastRedial) }

// pauseBefore is the pause before the first attempt to connect. A connection that was lost soon counts as one that was
// not made: a server that hangs up on everybody must not be asked without a pause.
func (p *runner) pauseBefore() time.Duration {
	if time.Since(p.made) < lastRedial {
		return longer(p.paused)
	}
	return 0
}
