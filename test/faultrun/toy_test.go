package faultrun

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/faultrun/history"
	"github.com/lockd-io/lockd/test/harness"
)

// bug is what is planted into a toy.
type bug string

const (
	none            bug = "none"
	noFences        bug = "fences of each client's own"
	noCheckOfFences bug = "fences that begin anew when the lock is free"
	takesHeld       bug = "SET without a look at the owner"
	deletesOthers   bug = "a release without a look at the owner"
	trustsReplies   bug = "validity from the time of the reply"
	unknownIsNo     bug = "an unknown outcome is a refusal"
	unknownReleased bug = "an unknown release is a release"
	keepsCancelled  bug = "a hold is kept for a waiter that has gone"
)

// toy is a small correct lock on one Redis, and many wrong ones.
type toy struct {
	rc   *redis.Client
	link *redistest.Proxy
	bug  bug
	mine atomic.Uint64
}

const (
	toyLease   = 600 * time.Millisecond
	toys       = 8
	toyTimeout = 200 * time.Millisecond
)

var (
	toyTake = redis.NewScript(`
if ARGV[3] == 'blind' then redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
elseif not redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 0 end
return redis.call('incr', KEYS[2])`)
	toyRelease = redis.NewScript(`
if ARGV[2] == 'blind' or redis.call('get', KEYS[1]) == ARGV[1] then
	if ARGV[3] == 'forget' then redis.call('del', KEYS[2]) end
	return redis.call('del', KEYS[1])
end
return 0`)
)

// lock asks again and again.
func (y *toy) lock(ctx context.Context, name string, a ask) (lock, error) {
	if a.wait > 0 {
		bounded, cancel := context.WithTimeout(ctx, a.wait)
		defer cancel()
		ctx = bounded
	}
	for {
		l, err := y.try(ctx, name)
		if a.try || !errors.Is(err, client.ErrHeld) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, client.ErrHeld // each answer was that
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (y *toy) try(ctx context.Context, name string) (lock, error) {
	l := &toyLock{toy: y, name: name, token: fmt.Sprint(rand.Uint64()), until: time.Now().Add(toyLease)}
	how := ""
	if y.bug == takesHeld {
		how = "blind"
	}
	attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), toyTimeout)
	defer cancel()
	if y.bug != unknownReleased { // what that leaves must not be taken for a grant without an outcome
		defer y.unlucky(redistest.Stall, 12)()
	}
	fence, err := toyTake.Run(attempt, y.rc, []string{name, "fence:" + name}, l.token, toyLease.Milliseconds(),
		how).Uint64()
	switch {
	case err != nil && y.bug == unknownIsNo:
		return nil, client.ErrHeld
	case err != nil:
		return nil, err
	case fence == 0:
		return nil, client.ErrHeld
	}
	l.fence = fence
	if y.bug == noFences {
		l.fence = y.mine.Add(1)
	}
	if y.bug == trustsReplies {
		l.until = time.Now().Add(toyLease)
	}
	gone := ctx.Err()
	if _, bounded := ctx.Deadline(); bounded && y.bug == keepsCancelled && rand.IntN(2) == 0 {
		gone = context.Canceled // in the moment of the grant, which is rare by chance
	}
	if gone == nil {
		return l, nil
	}
	if y.bug == keepsCancelled {
		return nil, errors.Join(gone, y.rc.Persist(context.WithoutCancel(ctx), name).Err()) // as if it were renewed
	}
	return nil, errors.Join(gone, l.Unlock(context.WithoutCancel(ctx)))
}

// unlucky has the network fail during one call in so many; more often where that is to be found.
func (y *toy) unlucky(how redistest.Mode, in int) (over func()) {
	if y.bug == unknownReleased {
		in /= 3
	}
	if rand.IntN(in) > 0 {
		return func() {}
	}
	y.link.Set(how)
	return func() {
		y.link.Set(redistest.Pass)
		y.link.CutAll()
	}
}

// toyLock is a toy that was granted.
type toyLock struct {
	*toy
	name, token string
	fence       uint64
	until       time.Time
}

func (l *toyLock) Fence() uint64 { return l.fence }

func (l *toyLock) Err() error {
	if time.Now().After(l.until) {
		return client.ErrLost
	}
	return nil
}

func (l *toyLock) Unlock(ctx context.Context) error {
	if l.Err() != nil { // who was held up does it late
		time.Sleep(100 * time.Millisecond)
	}
	how, fences := "", ""
	if l.bug == deletesOthers {
		how = "blind"
	}
	if l.bug == noCheckOfFences {
		fences = "forget"
	}
	ctx, cancel := context.WithTimeout(ctx, toyTimeout)
	defer cancel()
	defer l.unlucky(redistest.Deaf, 6)()
	n, err := toyRelease.Run(ctx, l.rc, []string{l.name, "fence:" + l.name}, l.token, how, fences).Int()
	switch {
	case err != nil && l.bug == unknownReleased:
		return nil
	case err != nil:
		return err
	case n == 0:
		return client.ErrNotHeld
	}
	return nil
}

// The checks that lockd passes find each planted bug, and nothing in a correct lock.
func TestTheChecksFindPlantedBugs(t *testing.T) {
	for bug, want := range map[bug][]string{
		none:            nil,
		noFences:        {"fences do not rise", "two holders"},
		noCheckOfFences: {"fences do not rise"},
		takesHeld:       {"two holders"},
		deletesOthers:   {"two holders", history.ErrBroken.Error()},
		trustsReplies:   {"two holders"},
		unknownIsNo:     {history.ErrBroken.Error()},
		unknownReleased: {history.ErrBroken.Error()},
		keepsCancelled:  {"not served"},
	} {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			var errs []error
			for nth := range uint64(30) { // it depends on chance, and on what else the machine does
				err := playWith(t, bug, nth)
				if err == nil && want == nil || err != nil && contains(err.Error(), want) {
					return
				}
				errs = append(errs, err)
				if want == nil {
					break
				}
			}
			t.Errorf("got %v, want one of %q", errs, want)
		})
	}
}

func contains(text string, some []string) bool {
	for _, s := range some {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// playWith has clients use toys with a bug, over networks that lose and delay messages.
func playWith(t *testing.T, bug bug, nth uint64) error {
	s := redistest.Start(t)
	first := 100 * (nth + 1) // of the sources
	rec := newRecord()
	var players []*player
	for i := range toys {
		link := redistest.StartProxy(t, s.Addr)
		if i%4 == 1 { // is slow
			link.Delay(40 * time.Millisecond)
		}
		rc := redis.NewClient(&redis.Options{
			Addr: link.Addr, MaxRetries: -1, DisableIdentity: true, Protocol: 2, ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { _ = rc.Close() })
		leases, late := time.Duration(i%2)*toyLease, 2
		if bug == deletesOthers {
			late = 1
		}
		if bug == unknownIsNo { // is seen where a name is free
			leases = 0
		}
		players = append(players, &player{
			witness: &witness{id: fmt.Sprint("client ", i), rec: rec}, locks: &toy{rc: rc, link: link, bug: bug},
			rand: random(first + 1 + uint64(i)), names: []string{"job 0", "job 1", "job 2"},
			holds: 150 * time.Millisecond, waits: time.Second, leases: leases, late: late,
		})
	}
	// A call that Redis does later than its client waits is as if Redis had failed.
	stop := rec.watch("Redis", toyTimeout, func() bool { return s.Client().Ping(t.Context()).Err() == nil })
	crowd := begin(t.Context(), players)
	time.Sleep(2 * time.Second)
	within := 10 * time.Second
	if bug == none { // all others are tried again
		within = harness.Patience
	}
	served := crowd.end(within)
	stop()
	v := rec.check(rules{lease: toyLease + toyTimeout})
	t.Logf("%d holds, %d requests without one", len(rec.holds), len(rec.others))
	return errors.Join(served, v.err())
}
