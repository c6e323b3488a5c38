package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// lean is a client with a connection, a session and a lease, that does no more than it has to. A client of the SDK
// needs more of a processor to connect than lockd needs to take it: ten thousand of them on one machine would measure
// themselves.
type lean struct {
	crowd *leanMovers
	name  string

	mu      sync.Mutex // guards the fields below, and writing
	link    link
	session *lockdv1.Opened
	hold    *lockdv1.Hold
	epoch   uint64
}

// link is a connection with a stream of a session. One goroutine receives, others may send, one at a time.
type link interface {
	send(m *lockdv1.SessionRequest) error
	receive() (*lockdv1.SessionResponse, error)
	// close ends it, without waiting.
	close()
}

// leanMovers are many lean clients.
type leanMovers struct {
	kind string
	// connect returns a link on which a message was sent.
	connect func(addr string, first *lockdv1.SessionRequest) (link, error)

	addrs   []string
	clients []*lean
	moved   chan time.Time
	over    atomic.Bool
	ended   atomic.Int64 // sessions
	lost    atomic.Int64 // locks
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

const (
	// lastLean is the last request id that a client uses.
	lastLean = 2
	// leanWait bounds the wait for an answer, as in the SDK.
	leanWait = sessionTTL / 3
)

var errLean = errors.New("not what was expected")

// dial connects and sends the first message, and waits for the answer to it.
func (l *lean) dial(addr string, open *lockdv1.Open) error {
	at, err := l.crowd.connect(addr, &lockdv1.SessionRequest{
		RequestId: cmp.Or(open.GetResume().GetLastRequestId(), 1),
		Message:   &lockdv1.SessionRequest_Open{Open: open},
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.link = at
	l.mu.Unlock()
	bound := time.AfterFunc(leanWait, at.close)
	defer bound.Stop()
	m, err := at.receive()
	if err == nil && m.GetOpened() == nil {
		err = fmt.Errorf("%w: %v", errLean, m)
	}
	if err != nil {
		at.close()
		return err
	}
	if m.GetOpened().GetSessionId() != "" && l.session == nil {
		l.session = m.GetOpened()
	}
	l.crowd.lost.Add(int64(len(m.GetOpened().GetLost())))
	return nil
}

func (l *lean) send(m *lockdv1.SessionRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link.send(m)
}

// begin opens a session and takes a lock.
func (l *lean) begin() error {
	open := &lockdv1.Open{ClientName: "lean", Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_RESUME}}
	if err := l.dial(l.crowd.addrs[0], open); err != nil {
		return err
	}
	l.epoch = 1
	if err := l.send(&lockdv1.SessionRequest{RequestId: lastLean, Message: &lockdv1.SessionRequest_Acquire{
		Acquire: &lockdv1.Acquire{Name: l.name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE},
	}}); err != nil {
		return err
	}
	m, err := l.link.receive()
	if err != nil {
		return err
	}
	holds := m.GetGranted().GetHolds()
	if len(holds) != 1 || l.session.GetResumeToken() == "" {
		return fmt.Errorf("%w: %v", errLean, m)
	}
	l.hold = holds[0]
	return nil
}

// live reads, and goes on at the other replica when the stream ends, until the session is over.
func (l *lean) live() {
	for !l.crowd.over.Load() {
		m, err := l.link.receive()
		if err == nil {
			if m.GetLost() != nil {
				l.crowd.lost.Add(1)
			}
			continue
		}
		l.link.close()
		if err := l.resume(); err != nil {
			if !l.crowd.over.Load() {
				l.crowd.ended.Add(1)
			}
			return
		}
		l.crowd.moved <- time.Now()
	}
}

// resume makes attempts at all addresses in turn, the other one first, until the lease has ended.
func (l *lean) resume() (err error) {
	for end, n := time.Now().Add(sessionTTL), 1; time.Now().Before(end) && !l.crowd.over.Load(); n++ {
		l.epoch++
		open := &lockdv1.Open{ClientName: "lean", Resume: &lockdv1.Resume{
			SessionId: l.session.GetSessionId(), ResumeToken: l.session.GetResumeToken(), Epoch: l.epoch,
			LastRequestId: lastLean, Holds: []*lockdv1.HeldLock{{Hold: l.hold, HoldCount: 1, Auto: true}},
		}}
		if err = l.dial(l.crowd.addrs[n%len(l.crowd.addrs)], open); err == nil {
			return nil
		}
		time.Sleep(rand.N(100 * time.Millisecond))
	}
	return cmp.Or(err, errLean)
}

func (m *leanMovers) open(ctx context.Context, addrs []string, n int) error {
	m.addrs, m.moved, m.clients = addrs, make(chan time.Time, n), make([]*lean, n)
	ctx, m.stop = context.WithCancel(ctx)
	defer m.wg.Go(func() { m.beat(ctx) })
	return openEach(n, func(i int) error {
		l := &lean{crowd: m, name: fmt.Sprint("mover:", i)}
		m.clients[i] = l
		if err := l.begin(); err != nil {
			return err
		}
		m.wg.Go(l.live)
		return nil
	})
}

// beat sends the heartbeats of all, spread over their interval.
func (m *leanMovers) beat(ctx context.Context) {
	tick := time.NewTicker(sessionTTL / 3 / 100)
	defer tick.Stop()
	for n := uint64(0); ; n++ {
		for i := int(n % 100); i < len(m.clients); i += 100 {
			// If it cannot be sent the stream has ended, which its reader sees.
			_ = m.clients[i].send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Heartbeat{
				Heartbeat: &lockdv1.Heartbeat{SentId: n/100 + 1},
			}})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (m *leanMovers) who() string { return m.kind }

func (m *leanMovers) lose() <-chan time.Time { return m.moved }

func (m *leanMovers) gone() (sessions, locks int) { return int(m.ended.Load()), int(m.lost.Load()) }

func (m *leanMovers) close() {
	m.over.Store(true)
	m.stop()
	for _, l := range m.clients {
		if l != nil {
			l.mu.Lock()
			if l.link != nil {
				l.link.close()
			}
			l.mu.Unlock()
		}
	}
	m.wg.Wait()
}
