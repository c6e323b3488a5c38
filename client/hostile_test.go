package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/hostile"
)

// hostileBound is more than all calls of hostileUse together may take.
const hostileBound = 30 * time.Second

// hostileUse uses a client for all that there is. A lock that is granted has to be the one that was asked for.
func hostileUse(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	begun := time.Now()
	use := func(l *client.Lock, err error) {
		if err != nil {
			return
		}
		if l.Name() != "job" {
			t.Errorf("asked for job, and was told to hold %q", l.Name())
		}
		_ = l.Extend(ctx, time.Minute)
		_ = l.Shorten(ctx, time.Second)
		_ = l.MakeAuto(ctx)
		_ = l.Unlock(ctx)
	}
	use(c.TryLock(ctx, "job"))
	use(c.Lock(ctx, "job", client.Wait(time.Second), client.Lease(time.Minute)))
	if ls, err := c.LockAll(ctx, items("a", "b"), client.Wait(time.Second)); err == nil {
		_ = ls.Unlock(ctx)
	}
	_, _ = c.Look(ctx, "job")
	_, _ = c.SetLimit(ctx, "job", 3)
	_, _ = holds(c, "")
	watching, stop := context.WithCancel(ctx)
	_, _ = c.Watch(watching, "job")
	stop()
	_ = c.Close()
	if took := time.Since(begun); took > hostileBound {
		t.Errorf("took %v", took)
	}
}

// TestServersThatAnswerWrongly has all requests answered with what is no answer to most of them.
// It fails, with a panic, if an Acquire that is answered with Released is taken for granted.
func TestServersThatAnswerWrongly(t *testing.T) {
	for i, m := range hostile.Answers() {
		t.Run(fmt.Sprint(i, " ", m.ProtoReflect().Descriptor().Name()), func(t *testing.T) {
			bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
				f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
					if r.GetOpen() != nil || r.GetHeartbeat() != nil || r.GetGoodbye() != nil {
						return false
					}
					s.send(r.GetRequestId(), proto.Clone(m))
					return true
				})
				hostileUse(t, f.dial(t, client.WithAnswerTimeout(time.Second)))
			})
		})
	}
}

// TestServersThatAnswerTwice has each answer come twice, and grants that nobody asked for.
func TestServersThatAnswerTwice(t *testing.T) {
	bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			if a := r.GetAcquire(); a != nil {
				s.send(hostile.Unknown, &lockdv1.Granted{Holds: []*lockdv1.Hold{hostile.Other()}})
				s.send(0, &lockdv1.Granted{Holds: []*lockdv1.Hold{hostile.Other()}})
			}
			if r.GetOpen() == nil && r.GetHeartbeat() == nil && r.GetGoodbye() == nil {
				s.serve(r)
			}
			return false
		})
		hostileUse(t, f.dial(t, client.WithAnswerTimeout(time.Second)))
	})
}

// TestServersThatTellWrongly has things told that nobody asked for.
func TestServersThatTellWrongly(t *testing.T) {
	for i, m := range hostile.Pushes() {
		t.Run(fmt.Sprint(i, " ", m.ProtoReflect().Descriptor().Name()), func(t *testing.T) {
			bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
				f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
					if r.GetOpen() == nil {
						s.send(0, proto.Clone(m))
					}
					return false
				})
				hostileUse(t, f.dial(t, client.WithAnswerTimeout(time.Second)))
			})
		})
	}
}

// TestServersThatOpenWrongly has sessions opened with what none can be.
// It fails, with a panic, if a heartbeat interval may be a nanosecond: a quarter of that is no time.
func TestServersThatOpenWrongly(t *testing.T) {
	for name, opened := range hostile.Openings() {
		t.Run(name, func(t *testing.T) {
			bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
				f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
					if r.GetOpen() != nil {
						s.send(r.GetRequestId(), proto.Clone(opened))
						go s.serveAll()
						return true
					}
					return false
				})
				hostileUse(t, f.dial(t, client.WithAnswerTimeout(time.Second)))
			})
		})
	}
}

// serveAll serves what follows on a stream that a hook opened, and tells validities that end at once.
func (s *fakeStream) serveAll() {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return
		}
		if b := m.GetHeartbeat(); b != nil {
			s.send(0, &lockdv1.HeartbeatAck{SentId: b.GetSentId(), ValidFor: durationpb.New(1)})
			continue
		}
		if m.GetBatch() == nil && m.GetGoodbye() == nil {
			s.serve(m)
		}
	}
}

// TestALongTimeIsNoPast has a server tell absurd times, of which the sum is more than a number can be.
// It fails if they are not cut before that: the lock is then lost at once.
func TestALongTimeIsNoPast(t *testing.T) {
	bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() == nil {
				return false
			}
			s.send(r.GetRequestId(), &lockdv1.Granted{
				Holds:    []*lockdv1.Hold{{Name: "job", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Holder: "#1", Fence: 7}},
				Validity: &lockdv1.Validity{AnchorAge: hostile.Far(), Remaining: hostile.Far()}, Auto: true,
			})
			return true
		})
		if l := mustLock(t, f.dial(t), "job"); l.Err() != nil {
			t.Error(l.Err())
		}
	})
}

// TestDrainingIsToldOnce has a server ask to leave again and again, on the same stream.
// It fails if each of these is acted on.
func TestDrainingIsToldOnce(t *testing.T) {
	bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
		drained := 0
		c := f.dial(t, client.WithOnStatus(func(st client.Status) {
			if st.State == client.Draining {
				drained++
			}
		}))
		l := mustLock(t, c, "job")
		for range 1000 {
			f.stream(-1).send(0, &lockdv1.Draining{ReconnectWithin: hostile.Far()})
		}
		synctest.Wait()
		if drained != 1 || l.Err() != nil {
			t.Errorf("drained %d times, the lock: %v", drained, l.Err())
		}
	})
}

// TestWhoDoesNotListenIsToldLittle has a server say much to a program that does not take it.
// It fails if what was not told is kept without a bound.
func TestWhoDoesNotListenIsToldLittle(t *testing.T) {
	bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
		var told []client.Status
		listens := make(chan struct{})
		c := f.dial(t, client.WithOnStatus(func(st client.Status) {
			<-listens
			told = append(told, st)
		}))
		mustLock(t, c, "job")
		for i := range 1000 {
			validity := &lockdv1.Validity{Remaining: durationpb.New(time.Hour + time.Duration(i)*time.Hour)}
			f.stream(-1).send(0, &lockdv1.AtRisk{Validity: validity})
		}
		synctest.Wait()
		close(listens)
		synctest.Wait()
		if n := len(told); n != 64 || told[n-1].ValidFor < 999*time.Hour {
			t.Errorf("told %d times, at last %+v", n, told[n-1])
		}
	})
}

// TestAServerThatNeverAnswersFillsNothing has a program go on trying, with a server that lives and never answers.
// It fails if what nobody waits for any more is kept without a bound.
func TestAServerThatNeverAnswersFillsNothing(t *testing.T) {
	defer client.SetMostUnanswered(10)()
	bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(_ *fakeStream, r *lockdv1.SessionRequest) bool {
			return r.GetOpen() == nil && r.GetHeartbeat() == nil && r.GetGoodbye() == nil
		})
		c := f.dial(t, client.WithAnswerTimeout(time.Second))
		for range 10 {
			_, err := c.TryLock(t.Context(), "job")
			wantError(t, err, client.ErrOutcomeUnknown)
		}
		_, err := c.TryLock(t.Context(), "job")
		wantError(t, err, client.ErrQuota)
		if reason := client.Reason(err); reason != "QUOTA_REQUESTS" {
			t.Errorf("the reason is %q", reason)
		}
	})
}

// TestAWaitWithoutEnd waits for the longest time that there is.
// It fails if that overflows: the wait is then over before it began.
func TestAWaitWithoutEnd(t *testing.T) {
	bubble(t, 10*time.Second, func(t *testing.T, f *fake) {
		held := mustLock(t, f.dial(t), "job")
		time.AfterFunc(time.Hour, func() { _ = held.Unlock(t.Context()) })
		c := f.dial(t, client.WithAnswerTimeout(math.MaxInt64), client.WithConnectWait(math.MaxInt64))
		l, err := c.Lock(t.Context(), "job", client.Wait(math.MaxInt64))
		if err != nil || errors.Is(l.Unlock(t.Context()), client.ErrUnavailable) {
			t.Errorf("Lock: %v", err)
		}
	})
}
