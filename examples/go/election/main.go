// election does something in one of several processes, for as long as that one lives. Run it in two terminals, and end
// the process that leads:
//
//	go run ./examples/go/election
//
// LOCKD_ADDR is the address of lockd, 127.0.0.1:7420 if it is not set.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/client/election"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		log.Fatal(err) //nolint:gocritic // nothing is to be done any more
	}
}

func run(ctx context.Context) error {
	c, err := client.Dial(cmp.Or(os.Getenv("LOCKD_ADDR"), "127.0.0.1:7420"), client.WithName("example"))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // then the leases end by themselves
	e := election.New(c, "example-leader")
	go observe(ctx, e)
	for {
		term, err := e.Campaign(ctx, election.Candidate{ID: fmt.Sprint("pid ", os.Getpid())})
		if err != nil {
			return err
		}
		if err := lead(ctx, term); err != nil && !errors.Is(err, client.ErrLost) {
			return err // after a loss it campaigns again
		}
	}
}

// lead does the leader's work until ctx or the term ends.
func lead(ctx context.Context, term *election.Term) error {
	for {
		fmt.Println("leading with fence", term.Fence())
		select {
		case <-term.Context().Done():
			return context.Cause(term.Context())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), term.Resign(context.WithoutCancel(ctx)))
		case <-time.After(time.Second):
		}
	}
}

func observe(ctx context.Context, e *election.Election) {
	for leader, err := range e.Observe(ctx) {
		switch {
		case err != nil:
			fmt.Println("not known at the moment:", err)
		case leader.Vacant():
			fmt.Println("nobody leads")
		default:
			fmt.Println("the leader is", leader.ID)
		}
	}
}
