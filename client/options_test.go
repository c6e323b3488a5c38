package client_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// The server is told what the options say, and is told it again when the session goes on.
func TestOptionsReachTheServer(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		actor := client.NewActor()
		if again := client.NewActor(); len(actor) < 20 || again == actor {
			t.Errorf("actors are %q and %q", actor, again)
		}
		c := f.dial(t, client.WithName("billing"), client.WithLabels(map[string]string{"zone": "a"}),
			client.WithSessionTTL(12*time.Second),
			client.WithActor(actor), client.WithFailOnDeadlock())
		mustLock(t, c, "n")
		want := &lockdv1.Open{
			ClientName: "billing", Labels: map[string]string{"zone": "a"}, SessionTtl: durationpb.New(12 * time.Second),
			Actor:    actor,
			Deadlock: lockdv1.DeadlockPolicy_DEADLOCK_POLICY_FAIL,
			Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH, lockdv1.Feature_FEATURE_RESUME},
		}
		if got := f.session(0).open; !proto.Equal(got, want) {
			t.Errorf("the server was told %v, want %v", got, want)
		}
		f.session(0).end(errCut)
		time.Sleep(time.Second)
		again := proto.CloneOf(f.session(1).open)
		if again.Resume = nil; !proto.Equal(again, want) {
			t.Errorf("when the session goes on it is told %v, want %v", again, want)
		}
	})
}

// A client that has its locks released when its stream breaks does not believe in them any longer, although its session
// could go on.
func TestNothingOutlivesAStreamThatReleases(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t, client.WithReleaseOnDisconnect())
		l := mustLock(t, c, "n")
		if got := f.session(0).open.GetOnDisconnect(); got != lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE {
			t.Errorf("the server was told %v", got)
		}
		f.session(0).end(errCut)
		synctest.Wait()
		if err := l.Err(); !errors.Is(err, client.ErrLost) {
			t.Errorf("the lock is %v, want it lost", err)
		}
	})
}
