package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func runHTTP(args []string) error {
	flags := flag.NewFlagSet("bench http", flag.ExitOnError)
	run := flags.Duration("run", 2*time.Second, "how long each is measured in a round")
	rounds := flags.Int("rounds", 7, "how often; the median counts")
	within := flags.Duration("timeout", 5*time.Minute, "give up after this time")
	_ = flags.Parse(args) // it exits
	p := plan{rounds: *rounds, warmUp: full.warmUp, run: *run}
	return withServers(*within, func(ctx context.Context, redis *process, program *program) error {
		return measureHTTP(ctx, redis, program, p)
	})
}

func measureHTTP(ctx context.Context, redis *process, program *program, p plan) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	web := "127.0.0.1:" + port
	lockd, err := program.start(redis.addr, "LOCKD_HTTP_LISTEN="+web)
	if err != nil {
		return err
	}
	defer lockd.stop()
	e := env{redis: redis}
	printMachine(ctx, e)
	return compareHTTP(ctx, e, p, []peer{
		{"gRPC, 1 connection", ours, 4, at(lockd, func(int) (locker, error) { return callsOn(lockd.addr, 1) })},
		{"gRPC, a connection each", ours, 4, at(lockd, func(n int) (locker, error) { return callsOn(lockd.addr, n) })},
		{"HTTP, a connection each", ours, 4, at(lockd, func(n int) (locker, error) { return postsTo(web, n), nil })},
	})
}

func compareHTTP(ctx context.Context, e env, p plan, peers []peer) error {
	short := newTable("callers", "how they call", "pairs/s / gRPC, 1 connection", "CPU of lockd", "CPU of all")
	for _, callers := range []int{1, unaryCallers} {
		results, err := comparePairs(ctx, e, p, peers, callers)
		if err != nil {
			return err
		}
		printPairs("Acquire + release by unary calls", callers, results)
		for _, r := range results[1:] {
			short.add(strconv.Itoa(callers), r.peer.name,
				ratio(besides(r, results[0], pairRate)), ratio(besides(r, results[0], lockdCPU)),
				ratio(besides(r, results[0], allCPU)))
		}
	}
	short.print()
	return nil
}

// callsOn makes unary calls, on so many connections.
func callsOn(addr string, n int) (locker, error) {
	conns := make([]*grpc.ClientConn, n)
	locks := make([]lockdv1.LockServiceClient, n)
	for i := range conns {
		var err error
		if conns[i], err = grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return nil, err
		}
		locks[i] = lockdv1.NewLockServiceClient(conns[i])
	}
	return funcs{func(ctx context.Context, caller int, name string) (unlockFunc, error) {
		return lockByCall(ctx, locks[caller%n], name)
	}, func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}}, nil
}

// postsTo makes the same calls by HTTP. Each caller keeps a connection.
func postsTo(addr string, callers int) locker {
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	return funcs{func(ctx context.Context, _ int, name string) (unlockFunc, error) {
		var answer struct{ Granted struct{ LeaseID string } }
		err := post(ctx, c, "http://"+addr+"/v1/acquire", map[string]string{
			"name": name, "kind": "LOCK_KIND_EXCLUSIVE", "lease": leaseTTL.String(),
		}, &answer)
		if err != nil {
			return nil, err
		}
		id := answer.Granted.LeaseID
		if id == "" {
			return nil, errNotGranted
		}
		return func(ctx context.Context) error {
			return post(ctx, c, "http://"+addr+"/v1/release", map[string]string{
				"name": name, "kind": "LOCK_KIND_EXCLUSIVE", "leaseId": id,
			}, &struct{}{})
		}, nil
	}, c.CloseIdleConnections}
}

func post(ctx context.Context, c *http.Client, url string, body map[string]string, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	text, err = io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is answered %d %s", url, resp.StatusCode, text)
	}
	return json.Unmarshal(text, answer)
}
