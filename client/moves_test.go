package client_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// A heartbeat is answered late, while a better stream is looked for because of that, which takes longer than the
// validity lasts that was known before.
func TestAHeartbeatIsAnsweredWhileAnotherStreamIsTried(t *testing.T) {
	const ttl, valid, late = 2 * time.Second, 4 * time.Second / 3, 250 * time.Millisecond
	kept(t, ttl, func(t *testing.T, f *fake) {
		var delay atomic.Int64
		var tried atomic.Bool
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetOpen().GetResume() != nil {
				tried.Store(true)
				return true // it is not answered
			}
			beat := r.GetHeartbeat()
			if beat != nil {
				time.AfterFunc(time.Duration(delay.Load()), func() {
					s.send(0, &lockdv1.HeartbeatAck{SentId: beat.GetSentId(), ValidFor: durationpb.New(valid)})
				})
			}
			return beat != nil
		})
		c := f.dial(t)
		l := mustLock(t, c, "n")
		time.Sleep(5 * ttl)
		for round := range 5 {
			delay.Store(int64(late))
			time.Sleep(ttl)
			delay.Store(0)
			time.Sleep(2 * ttl)
			if err := l.Err(); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if !tried.Load() {
			t.Error("no other stream was tried")
		}
	})
}

// Streams break again and again, each after a short life. The pauses between them do not get longer than leases are
// valid.
func TestLocksOutliveManyCutsInARow(t *testing.T) {
	const ttl = 2 * time.Second
	kept(t, ttl, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		for cut := range 20 {
			f.session(f.opens() - 1).end(errCut)
			time.Sleep(ttl / 2)
			if err := l.Err(); err != nil {
				t.Fatalf("cut %d: %v", cut, err)
			}
		}
		if n := f.opens(); n != 21 {
			t.Errorf("%d streams", n)
		}
	})
}

// A request that no replica has answered may have something under each of its ids. A server takes the last 16.
func TestARequestTellsItsIDsUntilOneIsAnswered(t *testing.T) {
	for what, givenUp := range map[string]bool{"wanted": false, "given up": true} {
		t.Run(what, func(t *testing.T) {
			kept(t, 10*time.Minute, func(t *testing.T, f *fake) {
				c := f.dial(t)
				mustLock(t, c, "warm")
				var mu sync.Mutex
				var sent []uint64
				f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool {
					a := r.GetAcquire()
					if a == nil || a.GetName() != "n" {
						return false
					}
					mu.Lock()
					defer mu.Unlock()
					if want := sent[max(0, len(sent)-16):]; !slices.Equal(a.GetInsteadOf(), want) {
						t.Errorf("instead of %d, want %d", a.GetInsteadOf(), want)
					}
					sent = append(sent, r.GetRequestId())
					return true
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { _, _ = c.Lock(ctx, "n") }()
				for i := range 20 {
					time.Sleep(10 * time.Second)
					if i == 5 && givenUp {
						cancel()
					}
					f.session(f.opens() - 1).end(errCut)
				}
				time.Sleep(10 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if len(sent) != 21 {
					t.Errorf("%d were sent", len(sent))
				}
			})
		})
	}
}

// silentDNS resolves an address, and then asks again for 5 s whenever the connection is to be closed: gRPC waits for
// that.
type silentDNS struct{}

func (silentDNS) Scheme() string { return "passthrough" }
func (silentDNS) Build(at resolver.Target, conn resolver.ClientConn,
	_ resolver.BuildOptions,
) (resolver.Resolver, error) {
	return silentDNS{}, conn.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: at.Endpoint()}}})
}
func (silentDNS) ResolveNow(resolver.ResolveNowOptions) {}
func (silentDNS) Close()                                { time.Sleep(5 * time.Second) }

// A stream that breaks is followed by the next one at once, also while DNS does not answer the connection that broke.
func TestTheNextStreamDoesNotWaitForDNS(t *testing.T) {
	kept(t, 10*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t, client.WithDialOptions(grpc.WithResolvers(silentDNS{})))
		l := mustLock(t, c, "n")
		before := f.opens()
		f.session(before - 1).end(errCut)
		time.Sleep(time.Second)
		if f.opens() == before {
			t.Error("no other stream was opened within a second")
		}
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		_ = c.Close()
		time.Sleep(6 * time.Second) // until all connections are closed
	})
}
