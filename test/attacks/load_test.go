package attacks

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// What a process is told in its environment that is an attacker until it is killed: what it does, from where, to whom.
const (
	envAttack = "LOCKD_ATTACK"
	envFrom   = "LOCKD_ATTACK_FROM"
	envTo     = "LOCKD_ATTACK_TO"
	envIssuer = "LOCKD_ATTACK_ISSUER" // of tokens; empty: there is no clients file
	// For those that speak by hand: the file of lockd's authority, if it speaks TLS; not empty: from many addresses.
	envAuthority = "LOCKD_ATTACK_AUTHORITY"
	envApart     = "LOCKD_ATTACK_APART"
)

// attackForever is what such a process does.
func attackForever() {
	go busyHalf()
	var l load
	for _, all := range []map[string]load{loads, idlers, wires} {
		if here, is := all[os.Getenv(envAttack)]; is {
			l = here
		}
	}
	options = []grpc.DialOption{fromThere()}
	if os.Getenv(envIssuer) != "" {
		shows := l.shows
		if shows == nil {
			shows = func() string { return bearer(attackerToken) }
		}
		options = append(options, grpc.WithPerRPCCredentials(shown(shows)))
	}
	conn, err := grpc.NewClient(os.Getenv(envTo),
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	l.run(conn)(context.Background())
}

// options are those of each connection of an attacker.
var options []grpc.DialOption

// calm is true while the process used less than half of a processor.
var calm atomic.Bool

func busyHalf() {
	for began := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
		calm.Store(used < time.Since(began)/2+50*time.Millisecond)
	}
}

// rest waits while the process has used more than half of a processor.
func rest(ctx context.Context) {
	for !calm.Load() && ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

// talk opens a session and repeats a message with new ids, as fast as lockd reads. Answers are read and forgotten.
func talk(ctx context.Context, conn *grpc.ClientConn, name string, next func(id uint64) *lockdv1.SessionRequest) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		return
	}
	_ = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{
		ClientName: name, Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH},
	}}})
	go func() {
		defer stop()
		for {
			m, err := stream.Recv()
			if err != nil {
				tell(err)
				return
			}
			for _, r := range append(m.GetBatch().GetResponses(), m) {
				if f := r.GetResult().GetFailure(); f != nil {
					said(f.GetReason())
				}
			}
		}
	}()
	for id := uint64(2); ctx.Err() == nil; id += 64 {
		rest(ctx)
		batch := &lockdv1.RequestBatch{}
		for i := range uint64(64) {
			m := next(id + i)
			m.RequestId = id + i
			batch.Requests = append(batch.Requests, m)
		}
		if stream.Send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: batch}}) != nil {
			return
		}
	}
}

// visit opens a session, or tries to, and leaves.
func visit(ctx context.Context, conn *grpc.ClientConn, open *lockdv1.Open) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		return
	}
	_ = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: open}})
	if _, err = stream.Recv(); err == nil {
		_ = stream.Send(&lockdv1.SessionRequest{RequestId: 2, Message: &lockdv1.SessionRequest_Goodbye{}})
		_ = stream.CloseSend()
	}
	for err == nil {
		_, err = stream.Recv()
	}
	tell(err)
}

// begin says that the attack begins.
var begin = sync.OnceFunc(func() { fmt.Println("ready") })

var told sync.Map

// said prints what lockd said, once.
func said(reason string) {
	if _, before := told.LoadOrStore(reason, true); !before {
		fmt.Println("said", reason)
	}
}

// tell prints the reason of an error.
func tell(err error) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			said(info.GetReason())
		}
	}
}

// crowd is so many who do something again and again.
func crowd(n int, do func(ctx context.Context, i int)) func(ctx context.Context) {
	return func(ctx context.Context) {
		begin()
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				for ctx.Err() == nil {
					rest(ctx)
					do(ctx, i)
				}
			})
		}
		all.Wait()
	}
}

const free = lockdv1.LockKind_LOCK_KIND_EXCLUSIVE

func release(uint64) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Release{
		Release: &lockdv1.Release{Name: "nobody's", Kind: free},
	}}
}

// joins and leaves a queue, by turns.
func joins(id uint64) *lockdv1.SessionRequest {
	if id%2 == 1 {
		return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Cancel{Cancel: &lockdv1.Cancel{TargetId: id - 1}}}
	}
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{
		Name: "wanted", Kind: lockdv1.LockKind_LOCK_KIND_FAIR,
	}}}
}

func unary(ctx context.Context, conn *grpc.ClientConn, name string) {
	locks := lockdv1.NewLockServiceClient(conn)
	got, err := locks.Acquire(ctx, &lockdv1.AcquireRequest{Name: name, Kind: free, Lease: durationpb.New(time.Minute)})
	if id := got.GetGranted().GetLeaseId(); err == nil && id != "" {
		_, _ = locks.Release(ctx, &lockdv1.ReleaseRequest{Name: name, Kind: free, LeaseId: id})
	}
	tell(err)
}

// attackerOf is a client of the SDK.
func attackerOf() *client.Client {
	c, err := client.Dial(os.Getenv(envTo), client.WithName("attacker"), client.WithDialOptions(options...))
	if err != nil {
		panic(err)
	}
	return c
}

// fromThere has connections come from the attacker's address.
func fromThere() grpc.DialOption {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(os.Getenv(envFrom))}}
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", addr)
	})
}

// shown is an authorization for each call; none if it is empty.
type shown func() string

// GetRequestMetadata is for package grpc.
func (s shown) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if text := s(); text != "" {
		return map[string]string{"authorization": text}, nil
	}
	return nil, nil
}

// RequireTransportSecurity is for package grpc.
func (shown) RequireTransportSecurity() bool { return false }

// bearer is the header that shows a token.
func bearer(token string) string { return "Bearer " + token }
