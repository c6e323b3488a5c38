// Package origin says what counts as one address of clients.
//
// # What it promises
//
// All that comes from one network that a client can be given as a whole is one: an IPv4 address, and the first 64 bits
// of an IPv6 address. A host chooses the other 64 as it likes.
//
// # What it does not promise
//
// One origin is not one client: many can stand behind one proxy, and in one network.
package origin

import (
	"net"
	"net/netip"
)

// networkBits is how much of an IPv6 address counts.
const networkBits = 64

// Of is where a peer with an IP address and a port comes from. Those that have none are one: the zero Addr.
func Of(peer string) netip.Addr {
	p, err := netip.ParseAddrPort(peer)
	if err != nil {
		return netip.Addr{}
	}
	a := p.Addr().Unmap()
	if a.Is4() {
		return a
	}
	network, err := a.WithZone("").Prefix(networkBits)
	if err != nil {
		return netip.Addr{} // cannot be: an IPv6 address has as many bits
	}
	return network.Addr()
}

// OfAddr is Of the address of a connection, which may have none.
func OfAddr(a net.Addr) netip.Addr {
	if a == nil {
		return netip.Addr{}
	}
	return Of(a.String())
}

// Text is an origin in a word, empty if there is no address.
func Text(o netip.Addr) string {
	if !o.IsValid() {
		return ""
	}
	return o.String()
}
