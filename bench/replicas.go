package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/client"
)

// replicasPlan is how many clients there are, and for how long they are idle.
type replicasPlan struct {
	clients int
	masters int // more than one: RedLock
	hold    time.Duration
	run     time.Duration // on one name
	of      *regexp.Regexp
	// profiles is a directory for CPU profiles, or empty.
	profiles string
}

func runReplicas(args []string) error {
	var p replicasPlan
	flags := flag.NewFlagSet("bench replicas", flag.ExitOnError)
	flags.IntVar(&p.clients, "clients", 10_000,
		"clients of a replica that is killed, each with a connection, a session and a lease; 0 for none")
	flags.IntVar(&p.masters, "masters", 1, "Redis servers; of several a majority keeps a lease")
	flags.DurationVar(&p.hold, "hold", 30*time.Second, "how long to measure them while they are idle")
	flags.DurationVar(&p.run, "run", 5*time.Second, "how long three replicas share one name; 0 for not at all")
	of := flags.String("of", "", "only clients whose `name` this regular expression matches, such as SDK")
	flags.StringVar(&p.profiles, "profiles", "", "write CPU profiles of the clients that move into this `directory`")
	within := flags.Duration("timeout", 20*time.Minute, "give up after this time")
	_ = flags.Parse(args) // it exits
	var err error
	if p.of, err = regexp.Compile(*of); err != nil {
		return err
	}
	return withLockd(*within, func(ctx context.Context, program *program) error {
		if p.clients > 0 {
			if err := moveCrowds(ctx, program, p); err != nil {
				return err
			}
		}
		if p.run > 0 {
			return onReplicas(ctx, program, p.masters, hotReplicas,
				func(ctx context.Context, e env) error { return shareName(ctx, e, p.run) })
		}
		return nil
	})
}

// moveCrowds has crowds of different clients move, each with servers of its own.
func moveCrowds(ctx context.Context, lockd *program, p replicasPlan) error {
	for _, m := range []movers{
		new(sdkMovers),
		&leanMovers{kind: "clients of bare gRPC", connect: connectBare},
		&leanMovers{kind: "lean clients", connect: connectFrames},
	} {
		if !p.of.MatchString(m.who()) {
			continue
		}
		err := onReplicas(ctx, lockd, p.masters, 2, func(ctx context.Context, e env) error { return moveCrowd(ctx, e, p, m) })
		if err != nil {
			return err
		}
	}
	return nil
}

// onReplicas starts masters and some replicas for one part. Nothing is released at its end: the servers go.
func onReplicas(ctx context.Context, lockd *program, masters, replicas int,
	part func(context.Context, env) error, settings ...string,
) error {
	var t topologies
	defer t.stop()
	servers, err := t.startMasters(ctx, masters)
	if err != nil {
		return err
	}
	e := env{redis: servers[0], masters: servers}
	where := []string{"--redis", e.redis.addr}
	if masters > 1 {
		where = []string{"--redlock", strings.Join(addrsOf(servers), ",")}
	}
	settings = append(settings, "LOCKD_LIMITS_SESSIONS_PER_ADDRESS=0", "LOCKD_LIMITS_LOCKS_PER_ADDRESS=0",
		"LOCKD_REDLOCK_QUARANTINE=0s")
	for range replicas {
		p, err := lockd.launch(where, settings...)
		if err != nil {
			return err
		}
		defer p.kill()
		e.lockd = append(e.lockd, p)
	}
	if masters > 1 {
		time.Sleep(2 * time.Second) // all members have been met
	}
	printMachine(ctx, e)
	return part(ctx, e)
}

// movers are clients, each with a connection, a session and an auto lease, that lose their replica.
type movers interface {
	// who they are.
	who() string
	// open has each of them take a lock at the first address, some at a time.
	open(ctx context.Context, addrs []string, n int) error
	// lose says that the replica is killed now, and returns when each of them goes on at another one.
	lose() (moved <-chan time.Time)
	// gone are the sessions and locks that did not go on.
	gone() (sessions, locks int)
	// close releases nothing: the servers go.
	close()
}

// openEach opens so many, some at a time. It returns one of the errors.
func openEach(n int, open func(i int) error) error {
	slots, errs := make(chan struct{}, 64), make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := open(i); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// moveCrowd has one replica serve all clients, kills it, and measures how they come to the other one.
func moveCrowd(ctx context.Context, e env, p replicasPlan, m movers) error {
	first := e
	first.lockd = e.lockd[:1]
	idle, err := first.read()
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.open(ctx, []string{e.lockd[0].addr, e.lockd[1].addr}, p.clients); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d clients hold a lock each\n", p.clients)
	h, err := holdFor(ctx, first, p.hold)
	if err != nil {
		return err
	}
	b, err := startBackground(e.lockd[1].addr)
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	times, used, err := p.storm(ctx, e, m)
	if err != nil {
		return err
	}
	worst, failed := b.stop()

	fmt.Printf("\n%s %s of one replica, each with a connection, a session and an auto lease; then the replica is "+
		"killed\n\n", whole(float64(p.clients)), m.who())
	out := newTable("what", "value")
	_, cores, _ := h.after.cores(h.before)
	out.add("lockd RSS for each", fmt.Sprintf("%.1f KiB", float64(h.after.rss-idle.rss)/1024/float64(p.clients)))
	out.add("cores of lockd while they are idle", cores)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		out.add(fmt.Sprintf("%g %% have gone on at the other one after", q*100), short(quantile(times, q)))
	}
	if n := len(times); n > 0 {
		out.add("the last one after", short(times[n-1]))
	}
	out.add("clients that did not", whole(float64(p.clients-len(times))))
	sessions, locks := m.gone()
	out.add("sessions that ended, locks that were lost", fmt.Sprint(sessions, ", ", locks))
	out.add("CPU until then for each: Redis, lockd, clients",
		fmt.Sprint(short(used.redis), ", ", short(used.lockd), ", ", short(used.client)))
	out.add("100 locks a second beside it: slowest, failed", fmt.Sprint(short(worst), ", ", failed))
	out.print()
	return nil
}

// storm kills the first replica, and returns when each client had moved, and what that took of the processors.
func (p replicasPlan) storm(ctx context.Context, e env, m movers) (times []time.Duration, used usage, err error) {
	stop, err := p.profile(m)
	if err != nil {
		return nil, used, err
	}
	left := e
	left.lockd = e.lockd[1:]
	before, err := left.usage(self)
	if err == nil {
		moved, began := m.lose(), time.Now()
		e.lockd[0].kill()
		times = await(ctx, moved, began, p.clients)
		used, err = left.usage(self)
	}
	return times, used.since(before, p.clients), errors.Join(err, stop())
}

// profile begins a CPU profile of this process, if one is wanted, and returns what ends it.
func (p replicasPlan) profile(m movers) (stop func() error, err error) {
	if p.profiles == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(filepath.Join(p.profiles, strings.Map(inFileName, m.who())+".pprof"))
	if err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, pprof.StartCPUProfile(f)
}

// mostMoving is how long is waited for the last client.
const mostMoving = 2 * time.Minute

func await(ctx context.Context, moved <-chan time.Time, began time.Time, n int) (times []time.Duration) {
	over := time.After(mostMoving)
	for len(times) < n {
		select {
		case at := <-moved:
			times = append(times, at.Sub(began))
			continue
		case <-ctx.Done():
		case <-over:
		}
		break
	}
	slices.Sort(times)
	return times
}

// background locks and unlocks a hundred times a second.
type background struct {
	client *client.Client
	over   chan struct{}
	done   chan struct{}
	worst  time.Duration
	failed int
}

func startBackground(addr string) (*background, error) {
	c, err := client.Dial(addr, client.WithName("background"))
	if err != nil {
		return nil, err
	}
	b := &background{client: c, over: make(chan struct{}), done: make(chan struct{})}
	go b.run()
	return b, nil
}

func (b *background) run() {
	defer close(b.done)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-b.over:
			return
		case <-tick.C:
		}
		began := time.Now()
		l, err := b.client.Lock(context.Background(), newName())
		b.worst = max(b.worst, time.Since(began))
		if err == nil {
			err = l.Unlock(context.Background())
		}
		if err != nil {
			b.failed++
		}
	}
}

func (b *background) stop() (worst time.Duration, failed int) {
	close(b.over)
	<-b.done
	_ = b.client.Close()
	return b.worst, b.failed
}
