package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/resolver"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// names is a DNS server that knows no name, and remembers what it was asked.
type names struct {
	conn net.PacketConn

	mu    sync.Mutex // guards the field below
	asked []string
}

func serveNames(t *testing.T) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	harness.Must(t, err)
	n := &names{conn: conn}
	var done sync.WaitGroup
	done.Go(n.serve)
	t.Cleanup(func() { _ = conn.Close(); done.Wait() })
	return n
}

// serve answers 127.0.0.1 to questions for an IPv4 address, and NXDOMAIN to all others.
func (n *names) serve() {
	for {
		text := make([]byte, 512)
		size, from, err := n.conn.ReadFrom(text)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(text[:size]) != nil {
			continue
		}
		q := m.Questions[0]
		n.mu.Lock()
		n.asked = append(n.asked, q.Name.String())
		n.mu.Unlock()
		m.Response, m.Authoritative, m.RCode, m.Additionals = true, true, dnsmessage.RCodeNameError, nil
		if q.Type == dnsmessage.TypeA {
			m.RCode, m.Answers = dnsmessage.RCodeSuccess, []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		if text, err = m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(text, from)
		}
	}
}

// To connect asks DNS for the address only. In Kubernetes each further question is several, because of the domains that
// are searched, and one that is lost holds up a client that leaves a killed replica for seconds.
func TestToConnectAsksForTheAddressOnly(t *testing.T) {
	n := serveNames(t)
	dialed := make(chan string, 100)
	c, err := client.Dial("dns://"+n.conn.LocalAddr().String()+"/lockd.test:7420", client.WithDialOptions(
		grpc.WithContextDialer(func(_ context.Context, addr string) (net.Conn, error) {
			select {
			case dialed <- addr:
			default:
			}
			return nil, errors.New("nobody is there")
		})))
	harness.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() { _, _ = c.Lock(ctx, "n") }()
	select {
	case addr := <-dialed:
		if addr != "127.0.0.1:7420" {
			t.Errorf("it connects to %s", addr)
		}
	case <-ctx.Done():
		t.Error("it does not connect")
	}
	_ = c.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range n.asked {
		if name != "lockd.test." {
			t.Errorf("it asks for %s, too", name)
		}
	}
}

// silentDNS resolves an address, and then asks again for 5 s whenever the connection is to be closed: gRPC waits for
// that.
type silentDNS struct{}

func (silentDNS) Scheme() string { return "passthrough" }
func (silentDNS) Build(at resolver.Target, conn resolver.ClientConn,
	_ resolver.BuildOptions,
) (resolver.Resolver, error) {
	return silentDNS{}, conn.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: at.Endpoint()}}})
}
func (silentDNS) ResolveNow(resolver.ResolveNowOptions) {}
func (silentDNS) Close()                                { time.Sleep(5 * time.Second) }

// A stream that breaks is followed by the next one at once, also while DNS does not answer the connection that broke.
func TestTheNextStreamDoesNotWaitForDNS(t *testing.T) {
	bubble(t, 10*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t, client.WithDialOptions(grpc.WithResolvers(silentDNS{})))
		l := mustLock(t, c, "n")
		f.stream(0).stop <- errCut
		time.Sleep(time.Second)
		if err := l.Err(); err != nil || len(f.streams) != 2 {
			t.Errorf("%v; %d streams within a second", err, len(f.streams))
		}
		_ = c.Close()
		time.Sleep(6 * time.Second) // until all connections are closed
	})
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"localhost":                {"localhost:7420"},
		"localhost:1":              {"localhost:1"},
		"lockd.example.com":        {"lockd.example.com:7420"},
		"192.0.2.1":                {"192.0.2.1:7420"},
		"a, b:1,[::1]:2":           {"a:7420", "b:1", "[::1]:2"},
		"::1":                      {"[::1]:7420"},
		"[::1]":                    {"[::1]:7420"},
		":7421":                    {":7421"},
		"dns:///a.example:7420":    {"dns:///a.example:7420"},
		"dns://8.8.8.8/a.example":  {"dns://8.8.8.8/a.example"},
		"unix:/run/lockd.sock":     {"unix:/run/lockd.sock"},
		"passthrough:///a:1":       {"passthrough:///a:1"},
		"":                         nil,
		"a,,b":                     nil,
		"a,":                       nil,
		"a:":                       nil,
		"a:x":                      nil,
		"a:0":                      nil,
		"a:70000":                  nil,
		"http://a:7420":            nil,
		"a b":                      nil,
		"1:2:3":                    nil,
		"[::1":                     nil,
		"a:1,dns:///b:1,user@c:1":  nil,
		"fe80::1:7420,[fe80::2]:1": {"[fe80::1:7420]:7420", "[fe80::2]:1"}, // the first is an address as a whole
	} {
		got, err := client.Addresses(text, client.DefaultPort)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
		if _, dialErr := client.Dial(text); (dialErr == nil) != (err == nil) {
			t.Errorf("%q: dial: %v", text, dialErr)
		}
	}
	_, err := client.Dial("a:x")
	wantError(t, err, client.ErrInvalid)
}
