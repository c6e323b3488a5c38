package election_test

import (
	"context"
	"flag"
	"iter"
	"os"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
	"github.com/lockd-io/lockd/test/harness"
)

// addr is a real server with its leases in memory, adminAddr is where its operators connect.
var addr, adminAddr string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.WithLockd(func(d *harness.Lockd) error {
		addr, adminAddr = d.Addr, d.Admin
		return nil
	})))
}

// campaigns has a candidate campaign in the background.
func campaigns(t *testing.T, e *election.Election, who election.Candidate) <-chan *election.Term {
	got := make(chan *election.Term, 1)
	go func() {
		if term, err := e.Campaign(t.Context(), who); err == nil {
			got <- term
		} else if t.Context().Err() == nil {
			t.Error(err)
		}
	}()
	return got
}

func leads(t *testing.T, e *election.Election, id string) *election.Term {
	t.Helper()
	return harness.Soon(t, id+" leads", campaigns(t, e, election.Candidate{ID: id, Annotation: "about " + id}))
}

// waiting waits until so many wait at the replica of the client.
func waiting(t *testing.T, c *client.Client, name string, n uint32) {
	t.Helper()
	harness.Until(t, "they wait", func() bool {
		info, err := c.Look(t.Context(), name)
		return err == nil && info.Waiters == n
	})
}

// news is what an observer is told next.
type news struct {
	election.Leader
	err error
}

// observer reads what is observed one by one.
type observer func() (election.Leader, error, bool)

func observes(t *testing.T, e *election.Election) observer {
	next, stop := iter.Pull2(e.Observe(t.Context()))
	t.Cleanup(stop)
	return next
}

// want waits until the next that is told without an error, which has to be this candidate; "" is nobody.
func (o observer) want(t *testing.T, id string) (leader election.Leader) {
	t.Helper()
	got := make(chan news, 1)
	go func() {
		for {
			leader, err, ok := o()
			if err == nil || !ok {
				got <- news{leader, err}
				return
			}
		}
	}()
	told := harness.Soon(t, "it is told who leads", got)
	if told.ID != id || told.Vacant() != (id == "") {
		t.Fatalf("told %+v, want %q", told, id)
	}
	return told.Leader
}

// forced releases a name by force.
func forced(t *testing.T, name string) {
	t.Helper()
	conn, err := grpc.NewClient(adminAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	harness.Must(t, err)
	defer conn.Close()
	_, err = lockdv1.NewAdminServiceClient(conn).ForceRelease(context.WithoutCancel(t.Context()),
		&lockdv1.ForceReleaseRequest{Name: name, By: "test", Why: "test"})
	harness.Must(t, err)
}
