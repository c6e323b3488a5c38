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

// Identity is who somebody is. The zero Identity is that of everybody when there is no clients file.
type Identity struct {
	Client *Client
	// By is how it was recognised, for people: "certificate spiffe://prod/ns/billing/a", "token", "jwt repo:acme/x".
	By string
	// Expires is when its certificate or token does, as that says itself; zero if never.
	Expires time.Time
	// Until is when it counts no more: a token counts for the minute longer that clocks may differ by.
	Until time.Time

	facts facts
}

// facts are what the clients file is matched with. They are kept, because the file may change.
type facts struct {
	shown  shown
	names  []string // of a certificate: URI and DNS names, else the common name
	token  [32]byte // SHA-256 of a static token
	issuer string   // of a verified JWT
	claims claims
}

// shown is what kind of credentials somebody showed.
type shown int

const (
	shownNothing shown = iota
	shownCertificate
	shownToken
	shownJWT
)

// claims are those of a JWT that clients are told apart by.
type claims struct {
	audience []string
	subject  string
}

// byBytes bounds Identity.By.
const byBytes = 256

// by is a text for Identity.By. It has what others chose: it is kept short, and valid UTF-8.
func by(kind, name string) string {
	return strings.ToValidUTF8(kind+" "+name[:min(len(name), byBytes)], "?")
}

// byNames is the text for those of a certificate.
func byNames(names []string) string {
	if len(names) == 0 {
		return "certificate without a name"
	}
	return by("certificate", names[0])
}

// factsOf are those of a certificate, and when it expires. What TLS has verified may have expired since.
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
		if !strings.Contains(name, "://") { // where nobody may choose his URI, he may yet choose one of these
			f.names = append(f.names, name)
		}
	}
	if now.After(c.NotAfter) {
		err := refused(ReasonCertificateEnded, "the certificate expired at %s", c.NotAfter.Format(time.RFC3339))
		return facts{}, time.Time{}, shownBy(err, byNames(f.names))
	}
	return f, c.NotAfter, nil
}

// Why somebody is not let in. They are part of the API.
const (
	ReasonNoCredentials     = "NO_CREDENTIALS"      // a certificate or a token is needed
	ReasonTokenInvalid      = "TOKEN_INVALID"       // nobody knows it, or its signature is wrong
	ReasonTokenExpired      = "TOKEN_EXPIRED"       // or it is not valid yet
	ReasonCertificateEnded  = "CERTIFICATE_EXPIRED" // since the connection was made
	ReasonClientUnknown     = "CLIENT_UNKNOWN"      // the credentials are good, and no client in the file is meant
	ReasonKeysUnavailable   = "KEYS_UNAVAILABLE"    // the keys of the issuer could not be had: try again
	ReasonIdentityWithdrawn = "IDENTITY_WITHDRAWN"  // the file changed: they are another's or nobody's
)

// reasons are all of them.
var reasons = []string{
	ReasonNoCredentials, ReasonTokenInvalid, ReasonTokenExpired, ReasonCertificateEnded, ReasonClientUnknown,
	ReasonKeysUnavailable, ReasonIdentityWithdrawn,
}

// ErrUnauthenticated is inside each *UnauthenticatedError.
var ErrUnauthenticated = errors.New("it is not known who this is")

// UnauthenticatedError says why somebody is not let in. It never has what was shown.
type UnauthenticatedError struct {
	Reason string
	Detail string
	By     string // for the audit: whose credentials they are, or say that they are; empty if nobody knows
}

func (e *UnauthenticatedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrUnauthenticated, e.Detail)
}

// Unwrap is ErrUnauthenticated.
func (e *UnauthenticatedError) Unwrap() error { return ErrUnauthenticated }

// shownBy adds to an *UnauthenticatedError whose credentials were shown, unless it says so already.
func shownBy(err error, by string) error {
	if e, is := errors.AsType[*UnauthenticatedError](err); is && e.By == "" {
		e.By = by
	}
	return err
}

func refused(reason, format string, args ...any) error {
	return &UnauthenticatedError{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
