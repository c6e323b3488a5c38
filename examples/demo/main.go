// demo starts replicas of lockd, and uses locks in all common ways until it is interrupted, so that there is something
// to look at. make demo builds what it needs and runs it.
//
// Now and then it kills a client that holds a lock, or a replica, on purpose.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"sync"
)

func main() {
	log.SetFlags(log.Ltime)
	lockd := flag.String("lockd", "bin/lockd", "the `program`")
	port := flag.Int("port", 7420, "the first of the `ports`: ten for each replica")
	victim := flag.String("victim", "", "hold a lock at this `address`, which is what demo itself asks for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *victim != "" {
		err = hold(ctx, *victim)
	} else {
		err = run(ctx, *lockd, *port)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err) //nolint:gocritic // nothing is to be done any more
	}
}

func run(ctx context.Context, lockd string, port int) error {
	var replicas []*replica
	for i := range 3 {
		replicas = append(replicas, &replica{program: lockd, number: i + 1, port: port + 10*i})
	}
	redis, store, err := startRedis(ctx)
	if err != nil {
		return err
	}
	if redis == nil { // memory is that of one process
		fmt.Println("There is no redis-server: one replica keeps the leases in memory.")
		replicas = replicas[:1]
	}
	var all sync.WaitGroup
	var addresses []string
	for _, r := range replicas {
		r.redis = store
		addresses = append(addresses, r.address(0))
		all.Go(func() { r.keep(ctx) })
	}
	fmt.Printf(`The console:   http://%s
Try it:        bin/lockctl --addr %s top
               bin/lockctl --addr %s --admin-addr %s doctor
Ctrl-C ends all of it.
`, replicas[0].address(consolePort), addresses[0], addresses[0], replicas[0].address(adminPort))
	use(ctx, addresses)
	if len(replicas) > 1 {
		all.Go(func() { killSometimes(ctx, replicas[1:]) })
	}
	<-ctx.Done()
	all.Wait()
	if redis != nil {
		_ = redis.Process.Signal(os.Interrupt)
		_ = redis.Wait()
	}
	return nil
}

// startRedis starts a Redis that keeps nothing when it ends. It returns nil if redis-server is not installed.
func startRedis(ctx context.Context) (*exec.Cmd, string, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, "", nil //nolint:nilerr // there is another way
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, "", err
	}
	redis := exec.CommandContext(context.WithoutCancel(ctx), program, // which ends last
		"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	apart(redis)
	return redis, fmt.Sprintf("127.0.0.1:%d", port), redis.Start()
}
