package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/lockd-io/lockd/client"
)

func Example() {
	ctx := context.Background()
	c, err := client.Dial(addr, client.WithName("billing"))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l, err := c.Lock(ctx, "invoice:4711")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Unlock(ctx) //nolint:errcheck // an error here means that the lease runs out by itself

	// Work with a context that ends when the lock does, and give the fence to what is written.
	if err := l.Context().Err(); err == nil {
		fmt.Println("working, fenced:", l.Fence() > 0)
	}
	// Output: working, fenced: true
}

func ExampleClient_TryLock() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l, err := c.TryLock(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.TryLock(ctx, "nightly-report")
	if held, ok := errors.AsType[*client.HeldError](err); ok {
		fmt.Println("somebody else is at it:", held.Name)
	}
	if err := l.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: somebody else is at it: nightly-report
}

func ExampleClient_Lock_options() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l, err := c.Lock(ctx, "import", client.Wait(5*time.Second), client.Lease(time.Minute), client.Annotation("run 12"))
	if err != nil {
		log.Fatal(err)
	}
	if err := l.Extend(ctx, 2*time.Minute); err != nil {
		log.Fatal(err)
	}
	fmt.Println(l.ValidFor() > time.Minute)

	_, err = c.Lock(ctx, "import", client.Wait(10*time.Millisecond))
	fmt.Println(errors.Is(err, client.ErrTimedOut), client.Reason(err))
	// Output:
	// true
	// true WAIT_TIMEOUT
}

func ExampleHolder() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	outer, err := c.Lock(ctx, "account:1", client.Holder("request-7"))
	if err != nil {
		log.Fatal(err)
	}
	inner, err := c.Lock(ctx, "account:1", client.Holder("request-7"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("same grant:", outer.Fence() == inner.Fence())
	fmt.Println(inner.Unlock(ctx), outer.Unlock(ctx))
	// Output:
	// same grant: true
	// <nil> <nil>
}

func ExampleLock_Context() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l, err := c.Lock(ctx, "short", client.Lease(200*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	work, cancel := context.WithCancel(l.Context())
	defer cancel()
	<-work.Done() // the lease ends, and the work with it
	if lost, ok := errors.AsType[*client.LostError](context.Cause(work)); ok {
		fmt.Println("lost:", lost.Name)
	}
	// Output: lost: short
}

func ExampleClient_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	unlocked, err := c.Watch(ctx, "door")
	if err != nil {
		log.Fatal(err)
	}
	l, err := c.Lock(ctx, "door")
	if err != nil {
		log.Fatal(err)
	}
	if err := l.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-unlocked).Name)
	// Output: door
}
