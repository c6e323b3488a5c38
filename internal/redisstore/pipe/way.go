package pipe

import (
	"context"
	"sync"
	"time"
)

// dialed is the outcome of an attempt to connect.
type dialed struct {
	begun time.Time
	conn  *conn
	err   error
}

// keepWay has a connection until the pipeline is closed, and sends on it what is queued. While there is none it makes
// one, whether or not anybody waits for it.
func (p *Pipeline) keepWay() {
	for c := p.connect(); c != nil; c = p.connect() {
		p.connected()
		var senders sync.WaitGroup
		for range p.Window {
			senders.Go(func() { p.use(c) })
		}
		senders.Wait()
		_ = c.fail(ErrClosed) // if nothing else was wrong
		p.lost()
		p.dialer.Unended.add(c)
	}
	p.fail(time.Now().Add(time.Hour), ErrClosed) // what nobody could send
}

// use sends what is queued on a connection until that is lost, or the pipeline closed.
func (p *Pipeline) use(c *conn) {
	for open := true; open; {
		for p.exchange(c) {
		}
		select {
		case _, open = <-p.wake:
		case <-c.gone:
			return
		}
	}
	for p.exchange(c) {
	}
}

// connect makes a connection. It is nil if the pipeline is closed. Those who wait need not wait for all attempts.
func (p *Pipeline) connect() *conn {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	look := time.NewTicker(max(p.Timeout/lookParts, time.Millisecond))
	defer look.Stop()
	coming, pause := make(chan dialed, 1), time.Duration(0)
	dial := func() {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		d := dialed{begun: time.Now()}
		d.conn, d.err = p.dialer.dial(ctx)
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
				return d.conn
			}
			p.refused(d.begun, d.err)
			pause = min(max(2*pause, firstRedial), lastRedial)
			go dial()
		case <-look.C:
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
