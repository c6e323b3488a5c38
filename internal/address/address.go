// Package address says what an address looks like. It looks nothing up.
package address

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/lockd-io/lockd/internal/lock"
)

// IsServer says whether a text is HOST:PORT of something to connect to.
func IsServer(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && IsWord(text) && !strings.ContainsAny(text, "@/") && port != "0" && IsPort(port)
}

// IsPath says whether a text is the absolute path of a socket.
func IsPath(text string) bool {
	return filepath.IsAbs(text) && lock.IsReadable(text) && !strings.ContainsAny(text, "?#")
}

// IsWord says whether a text is readable, not empty, and has no comma or space.
func IsWord(text string) bool {
	separates := func(r rune) bool { return r == ',' || unicode.IsSpace(r) }
	return text != "" && lock.IsReadable(text) && !strings.ContainsFunc(text, separates)
}

// IsPort says whether a text is a number of a port, 0 included.
func IsPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == text
}
