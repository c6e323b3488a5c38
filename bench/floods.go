package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// floodCommand is the argument with which this program is a flood, until it is killed. The name of the flood and the
// address of lockd follow.
const floodCommand = "flood"

// floods are what others do without a pause.
var floods = []struct {
	name     string
	run      func(addr string) error
	prepares bool // it says itself when it begins
}{
	{"one session, 1,000 pairs at a time", func(addr string) error { return floodOfPairs(addr, 1) }, false},
	{"four sessions, 1,000 pairs at a time each", func(addr string) error { return floodOfPairs(addr, 4) }, false},
	{"four sessions that take 500 locks and leave, again and again", floodOfVisits, false},
	{"one session that watches 10,000 names, four that change them", floodOfWatches, true},
	{"500 unary pairs at a time", floodOfUnary, false},
	{"100 sessions whose requests are refused", floodOfRefusals, false},
	{"20 sessions that join a fair queue and leave it, again and again", floodOfQueues, false},
	{"100 sessions at a time that come and go", floodOfSessions, false},
	{"500 attempts at a time to go on with sessions that never were", floodOfStrangers, false},
}

// floodReady is what the flood prints when it begins.
const floodReady = "ready"

func runFlood(args []string) error {
	if len(args) != 2 {
		return errors.New("want the name of a flood and the address of lockd")
	}
	for _, f := range floods {
		if f.name == args[0] {
			if !f.prepares {
				fmt.Println(floodReady)
			}
			return f.run(args[1])
		}
	}
	return fmt.Errorf("there is no flood %q", args[0])
}

// fromElsewhere has a flood come from another address than the client beside it.
var fromElsewhere = grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	return d.DialContext(ctx, "tcp", addr)
})

var asStranger = client.WithDialOptions(fromElsewhere)

// side runs a function so many times side by side until one fails.
func side(n int, f func(i int) error) error {
	errs := make(chan error)
	for i := range n {
		go func() { errs <- f(i) }()
	}
	return <-errs
}

// sideOn is side on one connection.
func sideOn(addr string, n int, f func(conn *grpc.ClientConn, i int) error) error {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), fromElsewhere)
	if err != nil {
		return err
	}
	return side(n, func(i int) error { return f(conn, i) })
}

// pairsForEver locks and unlocks names that are made up anew each time.
func pairsForEver(c *client.Client, name func() string) error {
	for {
		l, err := c.Lock(context.Background(), name())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		if err != nil && !errors.Is(err, client.ErrUnavailable) {
			return err
		}
	}
}

func floodOfPairs(addr string, sessions int) error {
	return side(sessions, func(s int) error {
		c, err := client.Dial(addr, client.WithName("flood"), asStranger)
		if err != nil {
			return err
		}
		return side(1000, func(i int) error {
			return pairsForEver(c, func() string { return fmt.Sprintf("flood:%d:%d", s, i) })
		})
	})
}

// visitLocks is how many locks a session takes before it leaves.
const visitLocks = 500

func floodOfVisits(addr string) error {
	return sideOn(addr, 4, func(conn *grpc.ClientConn, s int) error {
		for {
			if err := visit(conn, s); err != nil {
				fmt.Fprintln(os.Stderr, err) // it may be refused for a while
				time.Sleep(10 * time.Millisecond)
			}
		}
	})
}

// visit opens a session, has it take locks with one message, and leaves when it has them.
func visit(conn *grpc.ClientConn, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	batch := &lockdv1.RequestBatch{}
	for i := range visitLocks {
		batch.Requests = append(batch.Requests, &lockdv1.SessionRequest{
			RequestId: uint64(i + 2),
			Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{
				Name: fmt.Sprintf("visit:%d:%d", n, i), Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE,
			}},
		})
	}
	for _, m := range []*lockdv1.SessionRequest{
		{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{
			ClientName: "flood", Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH},
		}}},
		{Message: &lockdv1.SessionRequest_Batch{Batch: batch}},
	} {
		_ = stream.Send(m) // Recv tells what is wrong
	}
	for granted := 0; granted < visitLocks; {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, a := range append(m.GetBatch().GetResponses(), m) {
			if a.GetGranted() != nil {
				granted++
			}
		}
	}
	_ = stream.Send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Goodbye{Goodbye: &lockdv1.Goodbye{}}})
	for err == nil {
		_, err = stream.Recv() // until the server ends the stream
	}
	return nil
}

// watchedNames is how many names one session watches.
const watchedNames = 10_000

func floodOfWatches(addr string) error {
	watched := func() string { return fmt.Sprint("watched:", rand.IntN(watchedNames)) }
	watcher, err := client.Dial(addr, client.WithName("flood"), asStranger)
	if err != nil {
		return err
	}
	for i := range watchedNames {
		events, err := watcher.Watch(context.Background(), fmt.Sprint("watched:", i))
		if err != nil {
			return err
		}
		go func() {
			for range events {
			}
		}()
	}
	fmt.Println(floodReady)
	return side(4, func(int) error {
		c, err := client.Dial(addr, client.WithName("flood"), asStranger)
		if err != nil {
			return err
		}
		return side(64, func(int) error { return pairsForEver(c, watched) })
	})
}

func floodOfUnary(addr string) error {
	return sideOn(addr, 500, func(conn *grpc.ClientConn, i int) error {
		locks, ctx, name := lockdv1.NewLockServiceClient(conn), context.Background(), fmt.Sprint("unary:", i)
		for {
			got, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{
				Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Lease: durationpb.New(leaseTTL), ClientName: "flood",
			})
			if id := got.GetGranted().GetLeaseId(); err == nil && id != "" {
				_, err = locks.Release(ctx, &lockdv1.ReleaseRequest{
					Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, LeaseId: id,
				})
			}
			if err != nil {
				time.Sleep(10 * time.Millisecond) // it was refused
			}
		}
	})
}
