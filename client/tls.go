package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TLS says how to speak TLS to the server. Files are PEM. The zero value trusts the authorities of the system, and
// shows no certificate.
type TLS struct {
	// CACert is a file with the authorities to trust, instead of the system's.
	CACert string
	// Cert and Key are files with this client's certificate and its key, for a server that wants one. Both or none.
	Cert, Key string
	// ServerName is the name expected in the server's certificate, instead of the host of the address.
	ServerName string
}

// WithTLS has the Client speak TLS. The files are read again for each connection, so that they may be changed
// meanwhile.
func WithTLS(t TLS) Option { return func(s *settings) { s.tls = &t } }

// The variables that TLSFromEnv reads.
const (
	envTLS        = "LOCKD_TLS"
	envCACert     = "LOCKD_CACERT"
	envCert       = "LOCKD_CERT"
	envKey        = "LOCKD_KEY"
	envServerName = "LOCKD_SERVER_NAME"
)

// TLSFromEnv reads LOCKD_TLS (true or false), LOCKD_CACERT, LOCKD_CERT, LOCKD_KEY and LOCKD_SERVER_NAME. It returns
// nil, which is clear text, if LOCKD_TLS is false or none of them is set. Each of the others alone means TLS.
func TLSFromEnv() (*TLS, error) {
	t := TLS{
		CACert: os.Getenv(envCACert), Cert: os.Getenv(envCert), Key: os.Getenv(envKey), ServerName: os.Getenv(envServerName),
	}
	wanted := t != TLS{}
	if text := os.Getenv(envTLS); text != "" {
		var err error
		if wanted, err = strconv.ParseBool(text); err != nil {
			return nil, fmt.Errorf("%s is %q, must be true or false", envTLS, text)
		}
	}
	if !wanted {
		return nil, nil
	}
	return &t, nil
}

// Credentials are for programs that use the generated stubs. Those of a nil TLS are for clear text. The authorities are
// read now, the client's own certificate again for each connection.
func (t *TLS) Credentials() (credentials.TransportCredentials, error) {
	if t == nil {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CACert != "" {
		pem, err := os.ReadFile(t.CACert)
		if err != nil {
			return nil, fmt.Errorf("the authorities for TLS: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the authorities for TLS: no certificate in %s", t.CACert)
		}
	}
	if t.Cert == "" && t.Key == "" {
		return listening{credentials.NewTLS(c)}, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("the certificate for TLS: there is only %s; certificate and key need each other",
			cmp.Or(t.Cert, t.Key))
	}
	if _, err := t.pair(nil); err != nil {
		return nil, err
	}
	c.GetClientCertificate = t.pair
	return listening{credentials.NewTLS(c)}, nil
}

// pair reads this client's certificate. It is shown even if the server names other authorities, so that the server says
// what is wrong with it.
func (t *TLS) pair(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("the certificate for TLS: %w", err)
	}
	return &pair, nil
}

// listening hears why a server refuses this client's certificate. With TLS 1.3 the server says so when the handshake is
// over for the client, which finds the connection closed when it writes its first words.
type listening struct {
	credentials.TransportCredentials
}

// ClientHandshake is for package grpc.
func (l listening) ClientHandshake(ctx context.Context, name string,
	raw net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := l.TransportCredentials.ClientHandshake(ctx, name, raw)
	if err != nil {
		return nil, nil, err
	}
	return listeningConn{conn}, info, nil
}

// Clone is for package grpc.
func (l listening) Clone() credentials.TransportCredentials {
	return listening{l.TransportCredentials.Clone()}
}

type listeningConn struct{ net.Conn }

// Write returns what the server said last if the connection is closed.
func (c listeningConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil {
		return n, nil
	}
	_ = c.SetReadDeadline(time.Now().Add(DefaultAnswerTimeout)) // nothing else is read when nothing can be written
	_, said := c.Read(make([]byte, 1))
	if alert, ok := errors.AsType[*net.OpError](said); ok && alert.Op == "remote error" {
		err = said
	}
	return n, err
}

const httpPort = "this is an HTTP port, perhaps that of probes and metrics (ops_listen); " +
	"clients connect to listen, port 7420"

// explanations are what errors of gRPC mean, by a part of their text; the first one counts. A server that wants TLS
// ends a connection without it in silence.
var explanations = []struct{ text, means string }{
	{"remote error: tls", ""}, // it says what it wants
	{"looked like an HTTP/1.1 header", httpPort},
	{"unexpected HTTP status code received from server", httpPort},
	{"missing selected ALPN property", "the server speaks TLS, but not gRPC: perhaps " + httpPort},
	{"error reading server preface: ", "does this server want TLS (--tls, WithTLS)?"},
	{
		"x509: cannot validate certificate for ",
		"a name that is in the server's certificate can be said (--server-name, ServerName of a tls.Config)",
	},
	{
		"x509: certificate is valid for ",
		"if the server is reached by another name, say one of these (--server-name, ServerName of a tls.Config)",
	},
	{
		"first record does not look like a TLS handshake",
		"the server does not speak TLS here (--tls=false, LOCKD_TLS, WithTLS)",
	},
}

// explained adds to an error of gRPC what it does not know.
func explained(st *status.Status) *status.Status {
	if st.Code() != codes.Unavailable && st.Code() != codes.Unimplemented && st.Code() != codes.Unknown {
		return st
	}
	for _, e := range explanations {
		if !strings.Contains(st.Message(), e.text) {
			continue
		}
		if e.means == "" {
			return st
		}
		p := st.Proto()
		p.Message += "; " + e.means
		return status.FromProto(p)
	}
	return st
}
