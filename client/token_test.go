package client_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

// tokenIn writes a token into a file.
func tokenIn(t testing.TB, path, token string) string {
	t.Helper()
	harness.Must(t, os.WriteFile(path, []byte(token), 0o600))
	return path
}

// shown is what the client of a stream shows.
func (s *fakeStream) shown() string {
	md, _ := metadata.FromIncomingContext(s.stream.Context())
	return strings.Join(md.Get("authorization"), ", ")
}

// remote is a connection to an address.
type remote struct {
	net.Conn
	addr net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.addr }

// at has a client connect to a fake as if it was at an address.
func (f *fake) at(addr net.Addr) client.Option {
	return client.WithDialOptions(grpc.WithContextDialer(func(ctx context.Context, at string) (net.Conn, error) {
		conn, err := f.connect(ctx, at)
		return remote{conn, addr}, err
	}))
}

var loopback = &net.TCPAddr{IP: net.IPv6loopback, Port: 7420}

// Each stream shows what is in the file then. While that cannot be used the session waits for it.
func TestTokenIsReadForEachStream(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := dial(t, "passthrough:fake", client.WithTokenFile(tokenIn(t, path, " first\n")), f.at(loopback),
			client.WithAnswerTimeout(time.Second))
		l := mustLock(t, c, "n")
		tokenIn(t, path, "second")
		time.Sleep(2 * time.Second)
		f.stream(-1).send(0, &lockdv1.Draining{})
		time.Sleep(2 * time.Second)
		if first, second := f.stream(0).shown(), f.stream(-1).shown(); first != "Bearer first" || second != "Bearer second" {
			t.Errorf("shown are %q and %q", first, second)
		}
		tokenIn(t, path, "")
		time.Sleep(2 * time.Second)
		f.stream(-1).stop <- errCut
		time.Sleep(2 * time.Second)
		_, err := c.TryLock(t.Context(), "m")
		wantError(t, err, client.ErrUnavailable)
		if !strings.Contains(fmt.Sprint(err), path+": it is empty") {
			t.Errorf("got %v, want it to name the file", err)
		}
		tokenIn(t, path, "third")
		time.Sleep(5 * time.Second)
		if got := f.stream(-1).shown(); got != "Bearer third" {
			t.Errorf("shown is %q", got)
		}
		harness.Must(t, l.Unlock(t.Context()))
	})
}

func TestTokenIsToldToNobodyElse(t *testing.T) {
	f := startFake(t, 30*time.Second)
	path := tokenIn(t, filepath.Join(t.TempDir(), "token"), "secret")
	away := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7420}
	_, err := dial(t, "passthrough:fake", client.WithTokenFile(path), f.at(away)).Lock(t.Context(), "n")
	wantError(t, err, client.ErrUnauthenticated)
	if text := fmt.Sprint(err); !strings.Contains(text, "this needs TLS") || strings.Contains(text, "secret") {
		t.Errorf("got %v, want TLS to be asked for", err)
	}

	authority := certstest.NewAuthority(t, "an authority")
	pair := authority.Issue(t, time.Hour, "lockd.test")
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	harness.Must(t, err)
	srv, lis := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&cert))), bufconn.Listen(1<<20)
	lockdv1.RegisterSessionServiceServer(srv, f)
	go func() { _ = srv.Serve(lis) }()
	defer srv.Stop()
	f.mu.Lock()
	f.lis = lis
	f.mu.Unlock()
	mustLock(t, dial(t, "passthrough:fake", client.WithTokenFile(path), f.at(away),
		client.WithTLS(client.TLS{CACert: authority.File(t), ServerName: "lockd.test"})), "m")
	if got := f.stream(-1).shown(); got != "Bearer secret" {
		t.Errorf("shown is %q", got)
	}
}

func TestDialRefusesTokenFilesThatCannotBeUsed(t *testing.T) {
	dir := t.TempDir()
	for want, text := range map[string]string{
		"it is empty": " \n", "has characters": "secret words", "has more than": strings.Repeat("secret", 3000),
	} {
		path := tokenIn(t, filepath.Join(dir, "token"), text)
		_, err := client.Dial("127.0.0.1:1", client.WithTokenFile(path))
		if err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := client.Dial("127.0.0.1:1", client.WithTokenFile("nowhere")); err == nil ||
		!strings.Contains(err.Error(), "the token file: stat nowhere") {
		t.Errorf("got %v", err)
	}
}
