package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// unaryCallers is how many make unary calls at a time.
const unaryCallers = 64

// secured is what is compared: the same lockd with TLS alone, and with a clients file and the audit.
type secured struct {
	credentials

	alone, whole *process
}

func runSecurity(args []string) error {
	flags := flag.NewFlagSet("bench security", flag.ExitOnError)
	run := flags.Duration("run", 2*time.Second, "how long each is measured in a round")
	rounds := flags.Int("rounds", 7, "how often; the median counts")
	profiles := flags.String("profiles", "",
		"write CPU profiles of lockd and of its callers into this `directory`, from one long round")
	within := flags.Duration("timeout", 15*time.Minute, "give up after this time")
	only := flags.String("of", "", "only those whose `name` this regular expression matches, beside TLS alone")
	_ = flags.Parse(args) // it exits
	of, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	p := plan{rounds: *rounds, warmUp: full.warmUp, run: *run, profiles: *profiles, peers: of, served: true}
	if p.profiles != "" {
		p.rounds, p.run = 1, profiledRun
	}
	return withServers(*within, func(ctx context.Context, redis *process, program *program) error {
		return measureSecurity(ctx, redis, program, p)
	})
}

func measureSecurity(ctx context.Context, redis *process, program *program, p plan) (err error) {
	var s secured
	s.credentials, err = newCredentials()
	defer s.remove()
	if err != nil {
		return err
	}
	if err := s.start(program, redis, p.profiles != ""); err != nil {
		return err
	}
	defer s.alone.stop()
	defer s.whole.stop()
	printMachine(ctx, env{redis: redis})
	return s.compare(ctx, env{redis: redis}, p)
}

// start starts both. Each has a prefix, so that they are no replicas of each other.
func (s *secured) start(lockd *program, redis *process, pprof bool) (err error) {
	settings := []string{
		fmt.Sprintf("LOCKD_OPS_PPROF=%t", pprof),
		"LOCKD_LISTEN_TLS_CERT_FILE=" + s.cert, "LOCKD_LISTEN_TLS_KEY_FILE=" + s.key,
	}
	if s.alone, err = lockd.start(redis.addr, append(settings, "LOCKD_REDIS_PREFIX=a:")...); err != nil {
		return err
	}
	if s.whole, err = lockd.start(redis.addr, append(settings, "LOCKD_REDIS_PREFIX=b:",
		"LOCKD_LISTEN_TLS_CLIENT_CERTS=optional", "LOCKD_LISTEN_TLS_CLIENT_CA_FILE="+s.cert,
		"LOCKD_SECURITY_CLIENTS_FILE="+s.clients, "LOCKD_SECURITY_AUDIT="+s.audit)...); err != nil {
		s.alone.stop()
	}
	return err
}

// compare measures, and prints. The first of each kind is TLS alone, which the others are compared with.
func (s *secured) compare(ctx context.Context, e env, p plan) error {
	short := newTable("callers", "who they are", "pairs/s / TLS alone", "CPU of lockd", "CPU of all",
		"allocations of lockd, TLS alone", "wanted, pairs/s")
	for _, part := range []struct {
		callers int
		peers   []peer
	}{
		{1, s.sessions(1)},
		{64, s.sessions(1)},
		{manyCallers, s.sessions(1)},
		{manyCallers, s.sessions(manyCallers)},
		{unaryCallers, []peer{
			{"unary, TLS alone", ours, 4, s.calls(s.alone, "")},
			{"unary, JWT", ours, 4, s.calls(s.whole, s.jwt)},
			{"unary, static token", ours, 4, s.calls(s.whole, s.static)},
		}},
	} {
		peers := append(part.peers[:1:1], p.chosen(part.peers[1:])...)
		if len(peers) == 1 {
			continue
		}
		results, err := comparePairs(ctx, e, p, peers, part.callers)
		if err != nil {
			return err
		}
		printPairs("Lock + unlock over TLS", part.callers, results)
		for _, r := range results[1:] {
			short.add(strconv.Itoa(part.callers), r.peer.name,
				ratio(besides(r, results[0], pairRate)), ratio(besides(r, results[0], lockdCPU)),
				ratio(besides(r, results[0], allCPU)),
				fmt.Sprintf("%.1f, %.1f", served(r), served(results[0])), "at least 0.9")
		}
	}
	fmt.Printf("\nIn short, with a client of %s patterns, quotas and the audit; medians of the ratios of each round\n\n",
		whole(manyPatterns))
	short.print()
	return nil
}

// besides is the ratio of something between two peers: the median of the rounds, in each of which they took turns.
func besides(one, other peerPairs, of func(pairResult) float64) float64 {
	var all []float64
	for i := range min(len(one.runs), len(other.runs)) {
		all = append(all, of(one.runs[i])/of(other.runs[i]))
	}
	return median(all)
}

// What besides compares.
func pairRate(r pairResult) float64 { return r.rate }
func lockdCPU(r pairResult) float64 { return float64(r.cpu.lockd) }
func allCPU(r pairResult) float64   { return float64(r.cpu.redis + r.cpu.lockd + r.cpu.client) }

// served is how often lockd allocates for a pair.
func served(p peerPairs) float64 {
	return medianOf(p.runs, func(r pairResult) float64 { return r.served })
}

// sessions are callers of n sessions, each of which is a connection.
func (s *secured) sessions(n int) []peer {
	of := fmt.Sprintf("sessions: %d, ", n)
	return []peer{
		{of + "TLS alone", ours, 4, at(s.alone, func(int) (locker, error) {
			return sessionsOf(n, func(int) (*client.Client, error) { return s.dial(s.alone, false) })
		})},
		{of + "certificate", ours, 4, at(s.whole, func(int) (locker, error) {
			return sessionsOf(n, func(int) (*client.Client, error) { return s.dial(s.whole, true) })
		})},
	}
}

func (s *secured) dial(lockd *process, mutual bool) (*client.Client, error) {
	return client.Dial(lockd.addr, client.WithName("bench"), client.WithTLS(s.tls(mutual)))
}

// errNotGranted is of a name that nobody else wants.
var errNotGranted = errors.New("it was not granted")

// calls are unary calls on one connection, with the token in a file if there is one.
func (s *secured) calls(lockd *process, token string) func(env, int) (locker, error) {
	return at(lockd, func(int) (locker, error) {
		secret := s.tls(false)
		transport, err := secret.Credentials()
		if err != nil {
			return nil, err
		}
		opts := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
		if token != "" {
			shown, err := client.TokenCredentials(token)
			if err != nil {
				return nil, err
			}
			opts = append(opts, grpc.WithPerRPCCredentials(shown))
		}
		conn, err := grpc.NewClient(lockd.addr, opts...)
		if err != nil {
			return nil, err
		}
		locks := lockdv1.NewLockServiceClient(conn)
		return funcs{func(ctx context.Context, _ int, name string) (unlockFunc, error) {
			return lockByCall(ctx, locks, name)
		}, func() { _ = conn.Close() }}, nil
	})
}

// lockByCall takes a lease by a unary call.
func lockByCall(ctx context.Context, locks lockdv1.LockServiceClient, name string) (unlockFunc, error) {
	const kind = lockdv1.LockKind_LOCK_KIND_EXCLUSIVE
	resp, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{Name: name, Kind: kind, Lease: durationpb.New(leaseTTL)})
	if err != nil {
		return nil, err
	}
	lease := resp.GetGranted()
	if lease == nil {
		return nil, errNotGranted
	}
	return func(ctx context.Context) error {
		_, err := locks.Release(ctx, &lockdv1.ReleaseRequest{Name: name, Kind: kind, LeaseId: lease.GetLeaseId()})
		return err
	}, nil
}
