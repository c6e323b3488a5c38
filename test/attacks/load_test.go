package attacks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// What a process is told in its environment that is an attacker until it is killed: what it does, from where, to whom.
const (
	envAttack = "LOCKD_ATTACK"
	envFrom   = "LOCKD_ATTACK_FROM"
	envTo     = "LOCKD_ATTACK_TO"
)

// attackForever is what such a process does.
func attackForever() {
	go busyHalf()
	conn, err := grpc.NewClient(os.Getenv(envTo), grpc.WithTransportCredentials(insecure.NewCredentials()), fromThere())
	if err != nil {
		panic(err)
	}
	loads[os.Getenv(envAttack)](conn)(context.Background())
}

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
		for m := new(lockdv1.SessionResponse); stream.RecvMsg(m) == nil; {
		}
		stop()
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
}

// begin says that the attack begins.
var begin = sync.OnceFunc(func() { fmt.Println("ready") })

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
}

const watchedNames = 10_000

// attackerOf is a client of the SDK.
func attackerOf() *client.Client {
	c, err := client.Dial(os.Getenv(envTo), client.WithName("attacker"), client.WithDialOptions(fromThere()))
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

// loads are what one address does without a pause.
var loads = map[string]func(conn *grpc.ClientConn) func(ctx context.Context){
	"refused requests": func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(100, func(ctx context.Context, _ int) { talk(ctx, conn, "refused", release) })
	},
	"a queue that is joined and left": func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(20, func(ctx context.Context, _ int) { talk(ctx, conn, "queue", joins) })
	},
	"sessions that come and go": func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(100, func(ctx context.Context, _ int) { visit(ctx, conn, &lockdv1.Open{ClientName: "short"}) })
	},
	"sessions that never were": func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(500, func(ctx context.Context, _ int) {
			visit(ctx, conn, &lockdv1.Open{ClientName: "bogus", Resume: &lockdv1.Resume{
				SessionId:   fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.Uint32()),
				ResumeToken: "guess", Epoch: 2,
			}})
		})
	},
	"watched names that change": func(*grpc.ClientConn) func(ctx context.Context) {
		return func(ctx context.Context) {
			watcher := attackerOf()
			var all sync.WaitGroup
			for i := range watchedNames {
				all.Go(func() {
					if events, err := watcher.Watch(ctx, fmt.Sprint("watched ", i)); err == nil {
						go func() {
							for range events {
							}
						}()
					}
				})
			}
			all.Wait()
			crowd(4, func(ctx context.Context, _ int) {
				c := attackerOf()
				crowd(64, func(ctx context.Context, _ int) {
					if l, err := c.Lock(ctx, fmt.Sprint("watched ", rand.IntN(watchedNames))); err == nil {
						_ = l.Unlock(ctx)
					}
				})(ctx)
			})(ctx)
		}
	},
	"unary calls": func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(500, func(ctx context.Context, i int) { unary(ctx, conn, fmt.Sprint("unary ", i)) })
	},
}

// What one address has lockd do without a pause, or nearly without the store, takes no lease from the others, no probe,
// and no more memory than there is. lockd has one processor, and the attacker half of one.
func TestLoadOfOneAddressHarmsNobody(t *testing.T) {
	for name := range loads {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, "LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR="+redistest.Start(t).Addr, "GOMAXPROCS=1")
			attackers := proctest.Start(t, os.Args[0],
				[]string{envAttack + "=" + name, envFrom + "=127.0.0.2", envTo + "=" + v.Addr})
			harness.Until(t, "the attack begins", func() bool { return attackers.Stdout.String() != "" })
			v.suffer(t)
		})
	}
}
