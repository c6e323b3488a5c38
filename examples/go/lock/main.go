// lock does something that no two processes may do at a time. Run it in two terminals:
//
//	go run ./examples/go/lock invoice:4711
//
// LOCKD_ADDR is the address of lockd, 127.0.0.1:7420 if it is not set.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/lockd-io/lockd/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	name := "invoice:4711"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := run(ctx, name); err != nil && ctx.Err() == nil {
		log.Fatal(err) //nolint:gocritic // nothing is to be done any more
	}
}

func run(ctx context.Context, name string) error {
	c, err := client.Dial(cmp.Or(os.Getenv("LOCKD_ADDR"), "127.0.0.1:7420"), client.WithName("example"))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // then the leases end by themselves

	l, err := c.Lock(ctx, name, client.OnQueued(func(before int) { fmt.Println("waiting, before this one:", before) }))
	if err != nil {
		return err
	}
	defer l.Unlock(ctx) //nolint:errcheck // then the lease ends by itself

	// The context ends when the lock is lost, and its cause says why. A resource that is written to gets the fence as
	// well.
	for i := range 5 {
		fmt.Println("step", i, "with fence", l.Fence())
		select {
		case <-l.Context().Done():
			return context.Cause(l.Context())
		case <-ctx.Done():
			return nil
		case <-time.After(200 * time.Millisecond):
		}
	}
	return nil
}
