package attacks

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/redistest"
)

// load is what one address does without a pause.
type load struct {
	run   func(conn *grpc.ClientConn) func(ctx context.Context)
	only  bool          // with a clients file only
	says  []string      // the reasons that lockd must have given, with a clients file
	shows func() string // the authorization of each call; nil: the token of the attacker
}

const watchQuota = 2_000

// watchedNames are as many as a client may watch.
func watchedNames() int {
	if os.Getenv(envIssuer) != "" {
		return watchQuota
	}
	return 10_000
}

var loads = map[string]load{
	"refused requests":                {run: talks(100, release)},
	"a queue that is joined and left": {run: talks(20, joins)},
	"sessions that come and go": {run: func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(100, func(ctx context.Context, _ int) { visit(ctx, conn, &lockdv1.Open{ClientName: "short"}) })
	}},
	"sessions that never were": {run: func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(500, func(ctx context.Context, _ int) {
			visit(ctx, conn, &lockdv1.Open{ClientName: "bogus", Resume: &lockdv1.Resume{
				SessionId:   fmt.Sprintf("%08x-0000-4000-8000-%012x", rand.Uint32(), rand.Uint32()),
				ResumeToken: "guess", Epoch: 2,
			}})
		})
	}},
	"watched names that change": {run: watchAndChange},
	"unary calls": {run: func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(500, func(ctx context.Context, i int) { unary(ctx, conn, fmt.Sprint("unary ", i)) })
	}},
	"answers that are never read": {run: func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(20, func(ctx context.Context, _ int) { deaf(ctx, conn) })
	}},

	"overlapping names":                  {run: talks(100, asks("", 8))},
	"lists of all names that there were": {run: lists},

	"forbidden names":               {only: true, says: []string{"FORBIDDEN"}, run: talks(100, asks("forbidden ", 1))},
	"one forbidden name of several": {only: true, says: []string{"FORBIDDEN"}, run: talks(100, asks("forbidden ", 8))},
	"limits of others": {only: true, says: []string{"FORBIDDEN"}, run: talks(20, func(id uint64) *lockdv1.SessionRequest {
		return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_SetLimit{
			SetLimit: &lockdv1.SetLimit{Name: fmt.Sprint("held ", id%leases), Limit: 1},
		}}
	})},
	"watches up to the quota": {
		says: []string{"QUOTA_CLIENT_WATCHES"},
		run: talks(100, func(id uint64) *lockdv1.SessionRequest {
			return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Watch{
				Watch: &lockdv1.Watch{Name: fmt.Sprint("mine ", rand.Uint64())},
			}}
		}),
	},
	"waits up to the quota": {says: []string{"QUOTA_CLIENT_WAITING"}, run: talks(100, asks("wanted", 0))},
	"locks up to the quota": {says: []string{"QUOTA_CLIENT_LOCKS"}, run: talks(100, asks("mine ", 1))},
	"calls of nobody": {
		only: true, says: []string{"NO_CREDENTIALS"}, run: knocks, shows: func() string { return "" },
	},
	"wrong tokens": {only: true, says: []string{"TOKEN_INVALID"}, run: knocks, shows: func() string {
		return bearer(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()))
	}},
	"huge tokens": {only: true, says: []string{"TOKEN_INVALID"}, run: knocks, shows: func() string {
		return bearer(fmt.Sprintf("%016x", rand.Uint64()) + strings.Repeat("e30.", 3000))
	}},
	"bad signatures": {
		only: true, says: []string{"TOKEN_INVALID"}, run: knocks, shows: func() string { return forged("first") },
	},
	"unknown keys": {only: true, says: []string{"TOKEN_INVALID"}, run: knocks, shows: func() string {
		return forged(fmt.Sprint(rand.Uint64()))
	}},
}

// lists are asked for without a pause, while there are more and more names.
func lists(conn *grpc.ClientConn) func(ctx context.Context) {
	return func(ctx context.Context) {
		go talks(4, asks("mine ", 1))(conn)(ctx)
		service := lockdv1.NewInspectServiceClient(conn)
		crowd(16, func(ctx context.Context, i int) {
			var err error
			switch i % 4 {
			case 0:
				_, err = service.ListBusiest(ctx, &lockdv1.ListBusiestRequest{Window: durationpb.New(time.Hour)})
			case 1:
				_, err = service.ListEvents(ctx, &lockdv1.ListEventsRequest{Name: "wanted"})
			case 2:
				_, err = service.ListHolds(ctx, &lockdv1.ListHoldsRequest{})
			default:
				_, err = service.ListWaiters(ctx, &lockdv1.ListWaitersRequest{})
			}
			tell(err)
		})(ctx)
	}
}

// forged is a JWT of the issuer, which has not signed it.
func forged(kid string) string {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	var signature [64]byte
	for i := range signature {
		signature[i] = byte(rand.Uint32())
	}
	claims := fmt.Sprintf(`{"iss":%q,"aud":"lockd","sub":"attacker","exp":%d,"jti":"%d"}`, os.Getenv(envIssuer),
		time.Now().Add(time.Hour).Unix(), rand.Uint64())
	header := fmt.Sprintf(`{"alg":"ES256","kid":%q}`, kid)
	return bearer(part(header) + "." + part(claims) + "." + part(string(signature[:])))
}

// knocks are calls and sessions, by turns.
func knocks(conn *grpc.ClientConn) func(ctx context.Context) {
	return crowd(500, func(ctx context.Context, i int) {
		if i%2 == 0 {
			unary(ctx, conn, "unary")
		} else {
			visit(ctx, conn, &lockdv1.Open{ClientName: "stranger"})
		}
	})
}

// talks are so many sessions that repeat a message.
func talks(n int, next func(id uint64) *lockdv1.SessionRequest) func(conn *grpc.ClientConn) func(ctx context.Context) {
	return func(conn *grpc.ClientConn) func(ctx context.Context) {
		return crowd(n, func(ctx context.Context, _ int) { talk(ctx, conn, "talks", next) })
	}
}

// asks for a name that is new each time, and so many that overlap with those of others; or for one name.
func asks(name string, several int) func(id uint64) *lockdv1.SessionRequest {
	return func(id uint64) *lockdv1.SessionRequest {
		a := &lockdv1.Acquire{Name: name, Kind: free}
		switch {
		case several == 1:
			a.Name = fmt.Sprint(name, rand.Uint64())
		case several > 1:
			a.Name = ""
			for i := range several - 1 {
				a.Names = append(a.Names, fmt.Sprint("overlaps ", id%16+uint64(i)))
			}
			if name != "" {
				a.Names = append(a.Names, name)
			}
		}
		return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{Acquire: a}}
	}
}

// deaf has a session ask, and reads no answer.
func deaf(ctx context.Context, conn *grpc.ClientConn) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx)
	if err != nil {
		return
	}
	_ = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{}}})
	for id := uint64(2); ; id++ {
		rest(ctx)
		m := release(id)
		m.RequestId = id
		if stream.Send(m) != nil {
			return
		}
	}
}

func watchAndChange(*grpc.ClientConn) func(ctx context.Context) {
	return func(ctx context.Context) {
		watcher := attackerOf()
		var all sync.WaitGroup
		for i := range watchedNames() {
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
				if l, err := c.Lock(ctx, fmt.Sprint("watched ", rand.IntN(watchedNames()))); err == nil {
					_ = l.Unlock(ctx)
				}
			})(ctx)
		})(ctx)
	}
}

// What one address, or one client of the clients file, has lockd do without a pause, or nearly without the store, takes
// no lease from the others, no probe, and no more memory than there is. lockd has one processor, and the attacker half
// of one.
func TestLoadOfOneAddressHarmsNobody(t *testing.T) {
	for name, l := range loads {
		for _, guard := range []bool{false, true} {
			if l.only && !guard || guard && !l.only && !whole() {
				continue
			}
			t.Run(fmt.Sprint(name, map[bool]string{true: " of a client"}[guard && !l.only]), func(t *testing.T) {
				sideBySide(t)
				v := victimOf(t, nil, guard,
					"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR="+redistest.Start(t).Addr, "GOMAXPROCS=1")
				v.enough = func() bool {
					for _, reason := range l.says {
						if !guard {
							break
						}
						if !strings.Contains(v.heard(), "said "+reason+"\n") {
							return false
						}
					}
					return true
				}
				v.have(t, name, v.Addr)
				v.suffer(t)
				if !v.enough() {
					t.Errorf("lockd said %q, want all of %q", v.heard(), l.says)
				}
			})
		}
	}
}

// connections are made and kept, up to 10,000, or as many as a process of this machine may have.
func connections(most int, then func(c net.Conn)) func(*grpc.ClientConn) func(ctx context.Context) {
	return func(*grpc.ClientConn) func(ctx context.Context) {
		return func(ctx context.Context) {
			var files syscall.Rlimit
			_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(os.Getenv(envFrom))}}
			var kept []net.Conn
			for range min(most, int(files.Cur)-100) {
				rest(ctx)
				c, err := d.DialContext(ctx, "tcp", os.Getenv(envTo))
				if err != nil {
					fmt.Println("no more:", err)
					break
				}
				kept = append(kept, c)
				go then(c)
			}
			begin()
			<-ctx.Done()
			runtime.KeepAlive(kept)
		}
	}
}

// drip says so much at a time, as long as it is heard.
func drip(text string, size int) func(c net.Conn) {
	return func(c net.Conn) {
		for n := 0; n < len(text); n += size {
			if _, err := c.Write([]byte(text[n:min(n+size, len(text))])); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
}

const hello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" // a handshake begins

var idlers = map[string]load{
	"connections without a request": {run: connections(10_000, drip("", 1))},
	"slow handshakes":               {run: connections(2_000, drip(hello+strings.Repeat("x", 500), 1))},
	"idle connections for probes":   {run: connections(1_000, drip("GET /healthz HTTP/1.1\r\nHost: x\r\n", 5))},
}

// Connections on which nothing is asked take nothing from those who ask.
func TestConnectionsHarmNobody(t *testing.T) {
	ca := certstest.NewAuthority(t, "attacks")
	for name, c := range map[string]struct {
		over *certstest.Authority
		at   func(v *victim) string
	}{
		"connections without a request": {nil, func(v *victim) string { return v.Addr }},
		"slow handshakes":               {ca, func(v *victim) string { return v.Addr }},
		"idle connections for probes":   {nil, func(v *victim) string { return v.Ops }},
	} {
		for _, guard := range []bool{false, true} {
			if guard && !whole() {
				continue
			}
			t.Run(fmt.Sprint(name, map[bool]string{true: " with a clients file"}[guard]), func(t *testing.T) {
				sideBySide(t)
				v := victimOf(t, c.over, guard)
				v.have(t, name, c.at(v))
				v.suffer(t)
			})
		}
	}
}
