// Package endpoint is where lockd listens: at which addresses, and how TLS is spoken there. It opens nothing.
package endpoint

import (
	"net"
	"strings"

	"github.com/lockd-io/lockd/internal/address"
	"github.com/lockd-io/lockd/internal/certs"
)

// Addresses are a part of the configuration: package config says what the tags mean. Each is HOST:PORT, or unix:/PATH
// for a socket of this machine.
type Addresses struct {
	Listen        string      `key:"listen" default:":7420" flag:"<address> where clients connect"`
	OpsListen     string      `key:"ops_listen" default:":7421" flag:"<address> of metrics and probes, empty for none"`
	AdminListen   string      `key:"admin_listen" default:"127.0.0.1:7422" flag:"<address> for operators, empty for none"`
	HTTPListen    string      `key:"http_listen" flag:"<address> where clients connect by HTTP, empty for none"`
	ConsoleListen string      `key:"console_listen" flag:"<address> of pages for people, empty for none"`
	ListenTLS     certs.Files `key:"listen_tls"` // of Listen and HTTPListen
	OpsTLS        certs.Files `key:"ops_tls"`
	AdminTLS      certs.Files `key:"admin_tls"`
	ConsoleTLS    certs.Files `key:"console_tls"`
}

// The endpoints, in the order in which they are opened: that of probes is the first to open and the last to close.
const (
	Ops = iota
	Admin
	Clients
	HTTP
	Console
	Count // how many there are
)

// Endpoint is one of the addresses.
type Endpoint struct {
	Key     string // "listen"
	Section string // "listen_tls"
	Addr    string // empty: nowhere
	TLS     certs.Files
}

// Endpoints are all endpoints, also those without an address.
func (a Addresses) Endpoints() [Count]Endpoint {
	return [...]Endpoint{
		Ops:     {"ops_listen", "ops_tls", a.OpsListen, a.OpsTLS},
		Admin:   {"admin_listen", "admin_tls", a.AdminListen, a.AdminTLS},
		Clients: {"listen", "listen_tls", a.Listen, a.ListenTLS},
		HTTP:    {"http_listen", "listen_tls", a.HTTPListen, a.ListenTLS},
		Console: {"console_listen", "console_tls", a.ConsoleListen, a.ConsoleTLS},
	}
}

// Check reports all mistakes by unless, each with its key. known says that there is a clients file, secure that
// addresses which other machines can reach need TLS.
func (a Addresses) Check(known, secure bool, unless func(ok bool, format string, args ...any)) {
	all := a.Endpoints()
	var before []Endpoint
	for _, i := range []int{Clients, Ops, Admin, HTTP, Console} {
		e := all[i]
		at, ok := parse(e.Addr)
		nowhere := i != Clients && e.Addr == ""
		unless(ok || nowhere, "%s: is %q, must be HOST:PORT, :PORT or unix:/PATH", e.Key, e.Addr)
		for _, b := range before {
			other, _ := parse(b.Addr)
			unless(!at.excludes(other), "%s: is %q, must not be the address of %s (%s)", e.Key, e.Addr, b.Key, b.Addr)
		}
		before = append(before, e)
		safe := nowhere || at.isLocal()
		unless(safe || i != Console || known,
			"%s: is %q, must be an address of this machine only: there is no security.clients_file", e.Key, e.Addr)
		unless(safe || i == Ops || e.TLS.Enabled() || !secure,
			"%s.cert_file: is needed when security.require is true, as others reach %s (%s)", e.Section, e.Key, e.Addr)
		if i == HTTP {
			continue // its TLS is that of listen
		}
		unless(!nowhere || !e.TLS.Enabled(),
			"%s.cert_file: is set, but nothing is served there: the address is empty", e.Section)
		e.TLS.Check(e.Section, unless)
	}
}

// Socket begins the address of a Unix socket, before its path.
const Socket = "unix:"

// place is what an address says. A socket has its path for a host, and Socket for a port.
type place struct{ host, port string }

// parse reads HOST:PORT, :PORT or unix:/PATH.
func parse(text string) (p place, ok bool) {
	if path, isSocket := strings.CutPrefix(text, Socket); isSocket {
		return place{path, Socket}, address.IsPath(path)
	}
	host, port, err := net.SplitHostPort(text)
	return place{host, port}, err == nil && address.IsPort(port)
}

// excludes says whether p and other cannot be open at the same time. Port 0 is another port every time.
func (p place) excludes(other place) bool {
	return p.port == other.port && p.port != "" && p.port != "0" &&
		(p.host == other.host || isAny(p.host) || isAny(other.host))
}

func isAny(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// isLocal says whether only this machine can reach the address. Names are not looked up.
func (p place) isLocal() bool {
	return p.port == Socket || p.host == "localhost" || net.ParseIP(p.host).IsLoopback()
}
