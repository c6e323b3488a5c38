package client

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// stream is what belongs to one stream of a session. Two goroutines work for it: read, which alone hears the server,
// and write, which alone sends. Each stream has a connection of its own, so that a new one can be at another replica
// while the old one is still being left.
type stream struct {
	session  *session
	at       int    // which of the client's targets
	epoch    uint64 // the number of the stream in its session
	conn     *grpc.ClientConn
	rpc      grpc.BidiStreamingClient[lockdv1.SessionRequest, lockdv1.SessionResponse]
	ctx      context.Context
	cancel   context.CancelCauseFunc
	ttl      time.Duration
	interval time.Duration

	wake  chan struct{} // size 1: there is something to send
	beat  *time.Ticker  // a heartbeat is due
	heard atomic.Int64  // instant of the last message
	quiet *time.Timer   // ends it when nothing is heard

	frames []*lockdv1.SessionRequest // what the writer sends, used again
	batch  batch                     // of the writer, as frames

	// Guarded by Client.mu.
	beats    heartbeats
	hasty    bool  // a heartbeat is to be sent early
	draining bool  // the server asked to leave
	stuck    bool  // and the session could not go on elsewhere when that was tried
	silent   bool  // nothing was heard for a while
	closing  error // why the server is about to end it
}

func (st *stream) rouse() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// enter locks the session's mutex if the session is on this stream. If the session has left it, nothing that it tells
// counts: enter returns false, without the mutex. While another stream is tried, enter waits for the outcome, unless
// the message is an answer to a heartbeat (ack): that holds wherever the session goes on, and the leases might seem to
// end during the attempt.
func (st *stream) enter(ack bool) bool {
	s := st.session
	s.mu.Lock()
	for s.parked == st && !ack {
		s.decided.Wait()
	}
	if s.stream == st || s.parked == st {
		return true
	}
	s.mu.Unlock()
	return false
}

// close ends the stream, which may never have been used. It does not wait for the end of the connection: gRPC's
// resolver may wait 5 s for a lost answer of DNS, and the next stream has to be there before.
func (st *stream) close(cause error) {
	st.cancel(cause)
	if st.quiet != nil {
		st.quiet.Stop()
		st.beat.Stop()
	}
	go func() { _ = st.conn.Close() }() // its stream is over, there is nothing left to fail
}

// patience is how long a stream may be silent until its session seeks another one. It leaves a quarter of a TTL for
// that: a lease is valid for two thirds of a TTL at least after the heartbeat that was answered last.
//
//	patience = interval of heartbeats (TTL/3) + TTL/12
func (st *stream) patience() time.Duration { return st.ttl * 5 / 12 }

// silence is for how long nothing was heard.
func (st *stream) silence() time.Duration {
	return time.Duration(st.session.client.now() - instant(st.heard.Load()))
}

// overdue ends a stream on which nothing was heard for the session's TTL, and says whether that is so.
func (st *stream) overdue() bool {
	if st.silence() < st.ttl {
		return false
	}
	st.cancel(ErrSilent)
	return true
}

// listen checks whether the stream is silent, and sets the timer of the next check. If nothing was heard for the time
// of patience, the replica may stand still, or be cut off: the session seeks another stream, and keeps this one until
// then. If nothing was heard for the session TTL, the session ends.
func (st *stream) listen() {
	if st.overdue() {
		return
	}
	s, silence := st.session, st.silence()
	next := st.patience() - silence
	s.mu.Lock()
	defer s.mu.Unlock()
	if next <= 0 {
		next = min(st.patience(), st.ttl-silence)
		if s.stream == st && !st.silent && s.resumableLocked() {
			st.silent = true
			s.client.tellLocked(Status{State: Interrupted, Err: ErrSilent})
			s.client.moveLocked(s, false)
		}
	}
	if st.ctx.Err() == nil {
		st.quiet.Reset(next)
	}
}
