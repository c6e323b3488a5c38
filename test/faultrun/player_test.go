package faultrun

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/client"
)

// look is how often a holder looks whether it still holds.
const look = 2 * time.Millisecond

// locker is what a player uses: the SDK, or locks with planted bugs.
type locker interface {
	// lock takes a name. The error is client.ErrHeld if somebody else has it. After any other the outcome is unknown.
	lock(ctx context.Context, name string, a ask) (lock, error)
}

// ask is how a player asks.
type ask struct {
	try   bool          // and not wait
	wait  time.Duration // at most; 0 = until the context ends
	lease time.Duration // 0 = renewed
}

// player is a client that does things at random.
type player struct {
	*witness
	locks  locker
	rand   *rand.Rand
	names  []string
	holds  time.Duration // as a rule no longer
	waits  time.Duration // the longest bounded one
	leases time.Duration // the longest of fixed ones; 0 = renewed
	late   int           // one in so many of them is not released in time
	cut    func()        // breaks its connection now and then; nil = never

	doing atomic.Pointer[string]
}

// play goes on until stop, and then takes each name once more. ctx is the end of all patience.
func (p *player) play(ctx context.Context, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			for _, name := range p.names {
				for !p.once(ctx, name, ask{}, 0) && ctx.Err() == nil {
					time.Sleep(p.upTo(100 * time.Millisecond))
				}
			}
			p.doing.Store(nil)
			return
		default:
			name := p.names[p.rand.IntN(len(p.names))]
			p.some(ctx, name)
			time.Sleep(p.upTo(10 * time.Millisecond))
		}
	}
}

// some asks in one of the ways.
func (p *player) some(ctx context.Context, name string) {
	a := ask{}
	if p.leases > 0 {
		a.lease = p.leases/10 + p.upTo(p.leases*9/10)
	}
	held := p.upTo(p.holds)
	if p.rand.IntN(20) == 0 {
		held = p.upTo(time.Second)
	}
	if p.leases > 0 && p.rand.IntN(p.late) == 0 { // and never releases it in time
		held = a.lease + p.leases*2/3
	}
	switch p.rand.IntN(8) {
	case 0, 1:
		a.try = true
	case 2, 3, 4:
		a.wait = p.upTo(p.waits)
	case 5: // and thinks better of it
		quit, cancel := context.WithTimeout(ctx, p.upTo(p.waits/4))
		defer cancel()
		ctx = quit
	}
	p.once(ctx, name, a, held)
}

func (p *player) upTo(d time.Duration) time.Duration {
	return time.Duration(p.rand.Int64N(int64(d))) + 1
}

// once takes a name, holds it and releases it, and says whether it could.
func (p *player) once(ctx context.Context, name string, a ask, held time.Duration) bool {
	what := fmt.Sprintf("%s asks for %s %+v since %v", p.id, name, a, p.rec.now())
	p.doing.Store(&what)
	cut := false
	if p.cut != nil && p.rand.IntN(20) == 0 {
		cut = true
		defer time.AfterFunc(p.upTo(200*time.Millisecond), p.cut).Stop()
	}
	l, err := p.take(name, func() (lock, error) {
		l, err := p.locks.lock(ctx, name, a)
		if err != nil && cut {
			err = errors.New("cut off") // a request that was repeated may have left a lease
		}
		return l, err
	})
	if err != nil {
		return false
	}
	if cut {
		p.rec.other(l.h.without(nil))
	}
	for end := l.h.got + held; l.valid() && l.h.sure < end; time.Sleep(look) {
	}
	// A lock that was lost is released, too: that must harm nobody.
	_ = l.give(context.Background())
	return true
}

// crowd are the players of a run.
type crowd struct {
	players []*player
	stop    chan struct{}
	done    chan struct{} // closed when all have finished
	cancel  context.CancelFunc
}

func begin(ctx context.Context, players []*player) *crowd {
	c := &crowd{players: players, stop: make(chan struct{}), done: make(chan struct{})}
	ctx, c.cancel = context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, p := range players {
		wg.Go(func() { p.play(ctx, c.stop) })
	}
	go func() {
		wg.Wait()
		close(c.done)
	}()
	return c
}

// end has all finish. It is an error if they are not served within a bound.
func (c *crowd) end(within time.Duration) (err error) {
	close(c.stop)
	select {
	case <-c.done:
	case <-time.After(within):
		for _, p := range c.players {
			if what := p.doing.Load(); what != nil {
				err = errors.Join(err, fmt.Errorf("not served within %v: %s", within, *what))
			}
		}
	}
	c.cancel()
	<-c.done
	return err
}

// sdk is the Go SDK.
type sdk struct{ *client.Client }

func (s sdk) lock(ctx context.Context, name string, a ask) (lock, error) {
	var opts []client.LockOption
	if a.lease > 0 {
		opts = append(opts, client.Lease(a.lease))
	}
	take := s.Lock
	switch {
	case a.try:
		take = s.TryLock
	case a.wait > 0:
		opts = append(opts, client.Wait(a.wait))
	}
	return granted(take(ctx, name, opts...))
}
