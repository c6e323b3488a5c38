package client

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc/resolver"
)

// DefaultPort is where lockd serves clients unless it is configured otherwise.
const DefaultPort = 7420

// Addresses reads a list of addresses that are separated by commas, as Dial takes it. An address without a port gets
// this one. An IPv6 address with a port is in brackets. A list that begins with a scheme of gRPC, as dns:///HOST:PORT,
// is left as it is. It is for programs that use the generated stubs.
func Addresses(list string, port int) ([]string, error) {
	if scheme, _, ok := strings.Cut(list, ":"); ok && resolver.Get(scheme) != nil {
		return []string{list}, nil // commas may mean something to its resolver
	}
	var out []string
	for text := range strings.SplitSeq(list, ",") {
		addr, err := address(strings.TrimSpace(text), port)
		if err != nil {
			return nil, fmt.Errorf("address %q: %w", text, err)
		}
		out = append(out, addr)
	}
	return out, nil
}

// address makes sure that a single address has a port.
func address(text string, port int) (string, error) {
	host, p, err := net.SplitHostPort(text)
	if standard := strconv.Itoa(port); net.ParseIP(text) != nil {
		host, p, err = text, standard, nil
	} else if err != nil { // perhaps it has no port
		host, p, err = net.SplitHostPort(text + ":" + standard)
	}
	switch {
	case text == "":
		return "", invalid("INVALID_ADDRESS", "it is empty")
	case err != nil, strings.ContainsAny(text, " \t/?#@"):
		return "", invalid("INVALID_ADDRESS", "it is not HOST or HOST:PORT; an IPv6 address with a port is in brackets")
	}
	if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
		return "", invalid("INVALID_ADDRESS", "the port must be a number from 1 to 65535")
	}
	return net.JoinHostPort(host, p), nil
}
