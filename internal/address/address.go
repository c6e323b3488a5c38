// Package address reads addresses: where lockd listens, and where servers are that it connects to. It looks nothing up:
// a name is an address of others.
package address

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/lockd-io/lockd/internal/lock"
)

// Socket begins the address of a Unix socket where lockd listens, before its path.
const Socket = "unix:"

// Listen is where lockd listens. A socket has its path for a host, and Socket for a port.
type Listen struct{ Host, Port string }

// ParseListen reads HOST:PORT, :PORT or unix:/PATH.
func ParseListen(text string) (l Listen, ok bool) {
	if path, isSocket := strings.CutPrefix(text, Socket); isSocket {
		return Listen{path, Socket}, IsPath(path)
	}
	host, port, err := net.SplitHostPort(text)
	return Listen{host, port}, err == nil && isPort(port)
}

// Excludes says whether two cannot be open at the same time. Port 0 is another port every time.
func (l Listen) Excludes(other Listen) bool {
	return l.Port == other.Port && l.Port != "" && l.Port != "0" &&
		(l.Host == other.Host || isAny(l.Host) || isAny(other.Host))
}

func isAny(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// IsLocal says whether only this machine can reach it.
func (l Listen) IsLocal() bool {
	return l.Port == Socket || l.Host == "localhost" || net.ParseIP(l.Host).IsLoopback()
}

// IsServer says whether a text is HOST:PORT of something to connect to.
func IsServer(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && IsWord(text) && !strings.ContainsAny(text, "@/") && port != "0" && isPort(port)
}

// IsPath says whether a text is the path of a socket, from the root on.
func IsPath(text string) bool {
	return filepath.IsAbs(text) && lock.IsReadable(text) && !strings.ContainsAny(text, "?#")
}

// IsWord says whether a text is there and has nothing that separates words.
func IsWord(text string) bool {
	separates := func(r rune) bool { return r == ',' || unicode.IsSpace(r) }
	return text != "" && lock.IsReadable(text) && !strings.ContainsFunc(text, separates)
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}
