package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

const (
	envTokenFile = "LOCKD_TOKEN_FILE"
	// tokenBytes is how long a token may be. gRPC's servers take headers of 16 KiB together.
	tokenBytes = 12 << 10
	// tokenAge is how long a token counts until its file is looked at again.
	tokenAge = time.Second
)

// WithTokenFile has the Client show the token in a file to the server, as "authorization: Bearer TOKEN". Space around
// the token is ignored. The file is read again for a new stream when it has changed, so that the token may be renewed
// meanwhile. An empty path is no token. A token is only sent over TLS, to a loopback address or to a Unix socket.
func WithTokenFile(path string) Option { return func(s *settings) { s.tokenPath = path } }

// TokenFileFromEnv is the path in LOCKD_TOKEN_FILE, for WithTokenFile. It is empty if there is none.
func TokenFileFromEnv() string { return os.Getenv(envTokenFile) }

// TokenCredentials are those of WithTokenFile, for programs that use the generated stubs. The file is read now, and
// again for a call when it has changed.
func TokenCredentials(path string) (credentials.PerRPCCredentials, error) {
	f := &tokenFile{path: path}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// tokenFile is a file with a token. Nothing of the token is ever in an error.
type tokenFile struct {
	path string

	mu     sync.Mutex // guards the fields below
	header string     // with the last token that was read
	of     os.FileInfo
	looked time.Time
}

// GetRequestMetadata is for package grpc. It is called for each stream and each unary call.
func (f *tokenFile) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	if err := mayBeTold(ctx); err != nil {
		return nil, err
	}
	header, err := f.read()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error()) // it can be corrected
	}
	return map[string]string{"authorization": header}, nil
}

// RequireTransportSecurity is for package grpc. If true, grpc would refuse connections inside this machine, too.
func (*tokenFile) RequireTransportSecurity() bool { return false }

// mayBeTold refuses to send a token where others could read it.
func mayBeTold(ctx context.Context) error {
	info, _ := credentials.RequestInfoFromContext(ctx)
	if info.AuthInfo != nil && credentials.CheckSecurityLevel(info.AuthInfo, credentials.PrivacyAndIntegrity) == nil {
		return nil
	}
	to, known := peer.FromContext(ctx)
	if known && local(to.Addr) {
		return nil
	}
	return status.Error(codes.Unauthenticated,
		"a token is not sent in clear text to another machine: this needs TLS (--tls, WithTLS)")
}

// local says whether what is sent to an address stays on this machine.
func local(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// read returns the header. The file is looked at once a second at most, and read if it is another one than before.
func (f *tokenFile) read() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.header != "" && time.Since(f.looked) < tokenAge {
		return f.header, nil
	}
	info, err := os.Stat(f.path)
	if err != nil {
		f.header = ""
		return "", fmt.Errorf("the token file: %w", err)
	}
	if f.header == "" || f.changed(info) {
		token, err := readToken(f.path)
		if err != nil {
			f.header = ""
			return "", fmt.Errorf("the token file %s: %w", f.path, err)
		}
		f.header, f.of = "Bearer "+token, info
	}
	f.looked = time.Now()
	return f.header, nil
}

// changed says whether the file is not the one that was read. A pipe can be read once.
func (f *tokenFile) changed(info os.FileInfo) bool {
	same := os.SameFile(info, f.of) && info.ModTime().Equal(f.of.ModTime()) && info.Size() == f.of.Size()
	return !same && info.Mode().IsRegular()
}

var (
	errNoToken   = errors.New("it is empty")
	errLongToken = fmt.Errorf("it has more than %d bytes", tokenBytes)
	errOddToken  = errors.New("it has characters that no token has")
)

// readToken reads what is in a file.
func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case token == "":
		return "", errNoToken
	case len(token) > tokenBytes:
		return "", errLongToken
	case strings.ContainsFunc(token, odd): // the text of a header is visible ASCII
		return "", errOddToken
	}
	return token, nil
}
