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

// runner has a connection until the pipeline is closed. While there is none it makes one, whether or not anybody waits
// for it. What is queued is sent on the connection of one runner, the leading one; that of the other one is spare.
type runner struct {
	*Pipeline
	made   time.Time     // when the last connection was
	paused time.Duration // before that
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

// use has a connection until that is lost, or the pipeline closed and all was answered.
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

// lead waits until a connection is the leading one. It is false if the connection is lost before, or the pipeline is
// closed. A spare one has to show that it lives: what silenced the other one may have silenced it, too, and then a new
// one comes first.
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

// lives asks on a spare connection whether it is answered. If it is not, the connection is lost at last.
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
	for range cap(c.slots) { // all is answered then
		c.enter()
	}
}

// next waits for a batch to send. It is nil when the connection is lost, or when the pipeline is closed and nothing
// waits.
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

// held says whether anything waits, and for how long it has to rest.
func (p *Pipeline) held() (waits bool, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.n+len(p.probes) > 0, p.queue.pause(time.Now())
}

// read tells what is answered on a connection, until that is lost.
func (p *Pipeline) read(c *conn) {
	for {
		_, err := c.in.Peek(1) // if the server hangs up, it says so at once
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

// connect makes a connection. It is nil if the pipeline is closed. Those who wait need not wait for all attempts.
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

// longer is the pause after another one.
func longer(pause time.Duration) time.Duration { return min(max(2*pause, firstRedial), lastRedial) }

// pauseBefore is the pause before the first attempt to connect. A connection that was lost at once is as one that was
// not made: what hangs up on everybody is not to be asked without pause.
func (p *runner) pauseBefore() time.Duration {
	if time.Since(p.made) < lastRedial {
		return longer(p.paused)
	}
	return 0
}
