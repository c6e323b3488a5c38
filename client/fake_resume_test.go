package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// fakeRecord is what the fake keeps of a session that can be resumed.
type fakeRecord struct {
	epoch   uint64
	last    uint64 // the greatest request id
	session *fakeSession
}

// begin opens a session, or has one go on in another stream.
func (f *fake) begin(s *fakeSession, opened *lockdv1.Opened) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := s.open.GetResume(); r != nil {
		if err := f.resumeLocked(s, r, opened); err != nil {
			return err
		}
	} else {
		s.id = fmt.Sprint("session ", len(f.records)+1)
		if f.records == nil {
			f.records = make(map[string]*fakeRecord)
		}
		f.records[s.id] = &fakeRecord{epoch: 1, session: s}
	}
	if s.id != "" {
		opened.SessionId, opened.ResumeToken = s.id, "token of "+s.id
	}
	f.sessions = append(f.sessions, s)
	return nil
}

func (f *fake) resumeLocked(s *fakeSession, r *lockdv1.Resume, opened *lockdv1.Opened) error {
	record := f.records[r.GetSessionId()]
	switch {
	case record == nil || r.GetResumeToken() != "token of "+r.GetSessionId():
		return refusal(codes.NotFound, "SESSION_EXPIRED")
	case r.GetEpoch() <= record.epoch:
		return refusal(codes.Aborted, "SUPERSEDED")
	case r.GetLastRequestId() < record.last:
		return refusal(codes.InvalidArgument, "INVALID_MESSAGE")
	}
	before := record.session
	record.epoch, record.last, record.session, s.id = r.GetEpoch(), r.GetLastRequestId(), s, r.GetSessionId()
	for _, claim := range r.GetHolds() {
		hold := claim.GetHold()
		h := f.held[hold.GetName()]
		if h == nil || h.session != before || h.holder != hold.GetHolder() || h.fence != hold.GetFence() ||
			hold.GetAcquiredBy() == 0 {
			opened.Lost = append(opened.Lost, &lockdv1.Lost{Hold: hold, Reason: lockdv1.Lost_REASON_FORCED})
			continue
		}
		h.session, h.count = s, claim.GetHoldCount()
		claim.Validity = s.validity(f.ttl)
		opened.Resumed = append(opened.Resumed, claim)
	}
	select {
	case before.stop <- refusal(codes.Aborted, "SUPERSEDED"):
	default:
	}
	return nil
}

// errGone ends a stream and its session.
var errGone = refusal(codes.Aborted, "SUPERSEDED")

// withdraw ends what a session waits for, whose stream ended.
func (f *fake) withdraw(s *fakeSession) {
	f.mu.Lock()
	defer f.mu.Unlock()
	mine := func(w fakeWaiter) bool { return w.session == s }
	f.several = slices.DeleteFunc(f.several, mine)
	for _, h := range f.held {
		h.waiting = slices.DeleteFunc(h.waiting, mine)
	}
}

// connect is how a client comes to an address.
func (f *fake) connect(ctx context.Context, at string) (net.Conn, error) {
	f.mu.Lock()
	lis, down, far := f.lis, f.down[at], f.far
	f.dialled = append(f.dialled, at)
	f.mu.Unlock()
	if down {
		return nil, errors.New("cannot be reached")
	}
	select {
	case <-time.After(far):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return lis.DialContext(ctx)
}

// dials are the addresses that were dialled.
func (f *fake) dials() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dialled)
}

func (f *fake) setDown(addr string, down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down == nil {
		f.down = make(map[string]bool)
	}
	f.down[addr] = down
}

// opens are the streams on which sessions began or went on.
func (f *fake) opens() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions)
}

func refusal(code codes.Code, reason string) error {
	st, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "lockd.io"})
	if err != nil {
		panic(err)
	}
	return st.Err()
}
