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

func ExampleAs() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	first, err := c.Lock(ctx, "catalogue", client.As(client.Read))
	if err != nil {
		log.Fatal(err)
	}
	second, err := c.Lock(ctx, "catalogue", client.As(client.Read))
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.TryLock(ctx, "catalogue", client.As(client.Write))
	fmt.Println("two readers, and a writer would have to wait:", errors.Is(err, client.ErrHeld))
	fmt.Println(first.Unlock(ctx), second.Unlock(ctx))
	// Output:
	// two readers, and a writer would have to wait: true
	// <nil> <nil>
}

func ExamplePermits() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	l, err := c.Lock(ctx, "licences", client.Permits(2, 3)) // two of three
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.TryLock(ctx, "licences", client.Permits(2, 3))
	fmt.Println("two more:", err == nil)
	_, err = c.TryLock(ctx, "licences", client.Permits(1, 4))
	if e, ok := errors.AsType[*client.LimitError](err); ok {
		fmt.Println("there are", e.Limit)
	}
	if err := l.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// two more: false
	// there are 3
}

func ExampleClient_LockAll() {
	ctx := context.Background()
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ls, err := c.LockAll(ctx, []client.Item{
		{Name: "account:17"}, {Name: "account:4"}, {Name: "rates", Kind: client.Read},
	}, client.Wait(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	// Work with a context that ends when any of the locks does.
	if ls.Context().Err() == nil {
		for _, l := range ls.All() {
			fmt.Println(l.Name(), l.Kind(), l.Fence() > 0)
		}
	}
	fmt.Println(ls.Unlock(ctx))
	// Output:
	// account:17 exclusive true
	// account:4 exclusive true
	// rates read true
	// <nil>
}

func ExampleOnQueued() {
	ctx, cancel := context.WithCancel(context.Background())
	c, err := client.Dial(addr)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if _, err := c.Lock(ctx, "press", client.As(client.Fair)); err != nil {
		log.Fatal(err)
	}
	_, err = c.Lock(ctx, "press", client.As(client.Fair), client.OnQueued(func(position int) {
		fmt.Println("before this one wait", position)
		cancel() // enough for an example
	}))
	fmt.Println(errors.Is(err, client.ErrCancelled))
	// Output:
	// before this one wait 0
	// true
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
