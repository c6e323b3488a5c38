package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Callers of the comparison of topologies: one, a few, and so many that the processors are full.
var topologyCallers = []int{1, 5, 16}

// slowAnswer is how late the slow one of five masters answers.
const slowAnswer = 500 * time.Millisecond

// topologies are servers of all kinds, and a lockd for each kind.
type topologies struct {
	stops   []func()
	masters []string // five that are healthy
	peers   []peer
}

func (t *topologies) stop() {
	for _, stop := range slices.Backward(t.stops) {
		stop()
	}
}

// compareTopologies measures a lock of one name and its release where leases live on several servers.
func compareTopologies(ctx context.Context, e env, program *program, p plan) error {
	t := &topologies{peers: []peer{{"lockd, one master", ours, 4, lockdWith(1)}}}
	defer t.stop()
	if err := t.start(ctx, program); err != nil {
		return fmt.Errorf("start the topologies: %w", err)
	}
	for _, callers := range topologyCallers {
		results, err := comparePairs(ctx, e, p, p.chosen(t.peers), callers)
		if err != nil {
			return err
		}
		printTopologies(callers, results)
	}
	return nil
}

// start starts all, in the order in which they are shown.
func (t *topologies) start(ctx context.Context, program *program) error {
	nodes, err := t.startServers(ctx, 3, "--cluster-enabled", "yes")
	if err != nil {
		return err
	}
	if err := formCluster(ctx, nodes); err != nil {
		return err
	}
	servers, err := t.startMasters(ctx, 6)
	if err != nil {
		return err
	}
	five, spare := servers[:5], servers[5]
	t.masters = addrsOf(five)
	slow, err := t.delay(servers[4].addr)
	if err != nil {
		return err
	}
	four := addrsOf(servers[:4])
	for i, kind := range []struct {
		name string
		args []string
	}{
		{"lockd, cluster of 3", []string{"--redis", "cluster://" + strings.Join(addrsOf(nodes), ",")}},
		{"lockd, RedLock of 3", []string{"--redlock", strings.Join(t.masters[:3], ",")}},
		{"lockd, RedLock of 5", []string{"--redlock", strings.Join(t.masters, ",")}},
		{"lockd, RedLock of 5, one stopped", []string{"--redlock", strings.Join(append(four, spare.addr), ",")}},
		{"lockd, RedLock of 5, one 500 ms late", []string{"--redlock", strings.Join(append(four, slow), ",")}},
	} {
		// Each has a prefix: replicas that share locks must have the same members.
		lockd, err := program.launch(kind.args, "LOCKD_REDLOCK_QUARANTINE=0s", fmt.Sprintf("LOCKD_REDIS_PREFIX=bench%d:", i))
		if err != nil {
			return err
		}
		t.stops = append(t.stops, lockd.stop)
		t.peers = append(t.peers, peer{kind.name, ours, 0, through(lockd)})
	}
	t.peers = append(t.peers, peer{redsyncOnFive, library, 0, redsyncOver(t.masters)})
	time.Sleep(2 * time.Second) // all members have been met
	return spare.cmd.Process.Signal(syscall.SIGSTOP)
}

func (t *topologies) startServers(ctx context.Context, n int, args ...string) ([]*process, error) {
	servers := make([]*process, n)
	for i := range servers {
		s, err := startRedis(ctx, args...)
		if err != nil {
			return nil, err
		}
		servers[i] = s
		t.stops = append(t.stops, s.kill)
	}
	return servers, nil
}

// startMasters starts servers that are members of a RedLock.
func (t *topologies) startMasters(ctx context.Context, n int) ([]*process, error) {
	servers, err := t.startServers(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		if err := markNew(ctx, s.addr); err != nil {
			return nil, err
		}
	}
	return servers, nil
}

// markNew has a server vote at once as a member of a RedLock.
func markNew(ctx context.Context, addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: 100})
	defer func() { _ = c.Close() }()
	return c.Set(ctx, "lockd:member", "new", 0).Err()
}

func addrsOf(servers []*process) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.addr
	}
	return addrs
}

// through is one session of a lockd that is not that of the environment, and has masters of its own.
func through(lockd *process, masters ...*process) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		e.lockd = []*process{lockd}
		l, err := lockdWith(1)(e, callers)
		return elsewhere{l, []*process{lockd}, masters}, err
	}
}

// elsewhere is a locker with servers of its own.
type elsewhere struct {
	locker

	lockd, masters []*process
}

// at has what is opened measured with a lockd that is not that of the environment.
func at(lockd *process, open func(callers int) (locker, error)) func(env, int) (locker, error) {
	return func(_ env, callers int) (locker, error) {
		l, err := open(callers)
		return elsewhere{locker: l, lockd: []*process{lockd}}, err
	}
}

func (l elsewhere) among(e env) env {
	e.lockd, e.masters = l.lockd, l.masters
	return e
}

// redsyncOver is redsync as it is documented, on a pool for each master.
func redsyncOver(masters []string) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		var pools []redsyncredis.Pool
		var clients []*redis.Client
		closeAll := func() {
			for _, c := range clients {
				_ = c.Close()
			}
		}
		for _, addr := range masters {
			e.redis = &process{addr: addr}
			c := newPool(e, callers)
			clients, pools = append(clients, c), append(pools, goredis.NewPool(c))
		}
		return redsyncWith(pools, closeAll), nil
	}
}

// formCluster gives the slots to the nodes, and waits until they work.
func formCluster(ctx context.Context, nodes []*process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the cluster was not formed"))
	defer cancel()
	const slots = 16384
	host, port, err := net.SplitHostPort(nodes[0].addr)
	if err != nil {
		return err
	}
	for i, n := range nodes {
		c := redis.NewClient(&redis.Options{Addr: n.addr})
		defer func() { _ = c.Close() }()
		from, to := i*slots/len(nodes), (i+1)*slots/len(nodes)-1
		if err := c.Do(ctx, "cluster", "addslotsrange", from, to).Err(); err != nil {
			return err
		}
		if err := c.ClusterMeet(ctx, host, port).Err(); err != nil && i > 0 {
			return err
		}
	}
	for _, n := range nodes {
		c := redis.NewClient(&redis.Options{Addr: n.addr})
		defer func() { _ = c.Close() }()
		for {
			info, err := c.ClusterInfo(ctx).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_size:%d", len(nodes))) {
				break
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

// delay is an address where a server answers late.
func (t *topologies) delay(server string) (addr string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	t.stops = append(t.stops, func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed
			}
			go passLate(conn, server)
		}
	}()
	return l.Addr().String(), nil
}

// passLate passes on what a client says at once, and what the server says late.
func passLate(client net.Conn, addr string) {
	server, err := net.Dial("tcp", addr)
	if err != nil {
		_ = client.Close()
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	parts := make(chan part, 1<<12)
	go func() {
		defer close(parts)
		for {
			buf := make([]byte, 1<<14)
			n, err := server.Read(buf)
			if n > 0 {
				parts <- part{time.Now().Add(slowAnswer), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.at))
		_, _ = client.Write(p.what) // if the client is gone, reading from the server ends soon
	}
	_ = client.Close()
}

// part is what is to be passed on, and when.
type part struct {
	at   time.Time
	what []byte
}

func printTopologies(callers int, results []peerPairs) {
	fmt.Printf("\n## Lock + unlock on several servers, callers: %d\n\n", callers)
	t := newTable("where leases live", "pairs/s", "/ redsync", "p50", "p99", "p50 / one master", "p99 / RedLock of 5")
	var one, five time.Duration
	var sync float64
	for _, r := range results {
		switch r.peer.name {
		case "lockd, one master":
			one = medianOf(r.runs, func(p pairResult) time.Duration { return p.p50 })
		case "lockd, RedLock of 5":
			five = medianOf(r.runs, func(p pairResult) time.Duration { return p.p99 })
		case redsyncOnFive:
			sync = rate(r)
		}
	}
	for _, r := range results {
		if len(r.runs) == 0 {
			t.add(r.peer.name)
			continue
		}
		p50 := medianOf(r.runs, func(p pairResult) time.Duration { return p.p50 })
		p99 := medianOf(r.runs, func(p pairResult) time.Duration { return p.p99 })
		t.add(r.peer.name, whole(rate(r)), ratio(rate(r)/sync), short(p50), short(p99), times(p50, one), times(p99, five))
	}
	t.print()
}

// times is how many times as long something took.
func times(a, b time.Duration) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(a)/float64(b))
}
