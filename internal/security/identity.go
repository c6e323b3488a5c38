package security

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Credentials are what somebody shows who connects.
type Credentials struct {
	// Certificate is the client's, verified by TLS; nil if it showed none.
	Certificate *x509.Certificate
	// Authorization is the header of that name, "Bearer TOKEN"; empty if there is none.
	Authorization string
}

// Identity is who a caller is. The zero Identity is that of everybody when there is no clients file.
type Identity struct {
	Client *Client
	// By is how the caller was recognised, for people: "certificate spiffe://prod/ns/billing/a", "token", "jwt
	// repo:acme/x".
	By string
	// Expires is when the certificate or token says that it expires; zero if never.
	Expires time.Time
	// Until is from when the credentials count no more: for a token a minute after Expires, because clocks may differ.
	Until time.Time

	facts facts
}

// facts are what is compared with the clients file. They are kept, because the file may change.
type facts struct {
	shown  shown
	names  []string // of a certificate: URI and DNS names, else the common name
	token  [32]byte // SHA-256 of a static token
	issuer string   // of a verified JWT
	claims claims
}

// shown is the kind of credentials that a caller showed.
type shown int

const (
	shownNothing shown = iota
	shownCertificate
	shownToken
	shownJWT
)

// claims are the claims of a JWT by which clients are told apart.
type claims struct {
	audience []string
	subject  string
}

// byBytes bounds Identity.By.
const byBytes = 256

// by is a text for Identity.By. Strangers chose name, so it is cut short and made valid UTF-8.
func by(kind, name string) string {
	return strings.ToValidUTF8(kind+" "+name[:min(len(name), byBytes)], "?")
}

// byNames is the text for a certificate with these names.
func byNames(names []string) string {
	if len(names) == 0 {
		return "certificate without a name"
	}
	return by("certificate", names[0])
}

// factsOf returns the facts of a certificate, and when it expires. TLS has verified it, but it may have expired since.
func factsOf(c *x509.Certificate, now time.Time) (facts, time.Time, error) {
	f := facts{shown: shownCertificate, names: make([]string, 0, len(c.URIs)+len(c.DNSNames)+1)}
	for _, uri := range c.URIs {
		f.names = append(f.names, uri.String())
	}
	others := c.DNSNames
	if len(c.URIs)+len(others) == 0 && c.Subject.CommonName != "" {
		others = []string{c.Subject.CommonName}
	}
	for _, name := range others {
		if !strings.Contains(name, "://") { // or a DNS name that a client may choose could pass for a URI
			f.names = append(f.names, name)
		}
	}
	if now.After(c.NotAfter) {
		err := refused(ReasonCertificateEnded, "the certificate expired at %s", c.NotAfter.Format(time.RFC3339))
		return facts{}, time.Time{}, shownBy(err, byNames(f.names))
	}
	return f, c.NotAfter, nil
}

// The reasons for which a caller is refused. They are part of the API.
const (
	ReasonNoCredentials     = "NO_CREDENTIALS"      // a certificate or a token is needed
	ReasonTokenInvalid      = "TOKEN_INVALID"       // the token is unknown, or its signature is wrong
	ReasonTokenExpired      = "TOKEN_EXPIRED"       // or it is not valid yet
	ReasonCertificateEnded  = "CERTIFICATE_EXPIRED" // since the connection was made
	ReasonClientUnknown     = "CLIENT_UNKNOWN"      // the credentials are good, and no client in the file is meant
	ReasonKeysUnavailable   = "KEYS_UNAVAILABLE"    // the issuer's keys could not be fetched: try again
	ReasonIdentityWithdrawn = "IDENTITY_WITHDRAWN"  // the file changed: the credentials are another client's or nobody's
)

var reasons = []string{
	ReasonNoCredentials, ReasonTokenInvalid, ReasonTokenExpired, ReasonCertificateEnded, ReasonClientUnknown,
	ReasonKeysUnavailable, ReasonIdentityWithdrawn,
}

// ErrUnauthenticated is inside each *UnauthenticatedError.
var ErrUnauthenticated = errors.New("it is not known who this is")

// UnauthenticatedError says why a caller is refused. It never has the credentials themselves.
type UnauthenticatedError struct {
	Reason string
	Detail string
	By     string // for the audit: whose the credentials are, or claim to be; empty if unknown
}

func (e *UnauthenticatedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrUnauthenticated, e.Detail)
}

// Unwrap is ErrUnauthenticated.
func (e *UnauthenticatedError) Unwrap() error { return ErrUnauthenticated }

// shownBy sets By of an *UnauthenticatedError, unless it is set already.
func shownBy(err error, by string) error {
	if e, is := errors.AsType[*UnauthenticatedError](err); is && e.By == "" {
		e.By = by
	}
	return err
}

func refused(reason, format string, args ...any) error {
	return &UnauthenticatedError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
