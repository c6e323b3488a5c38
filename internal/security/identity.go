package security

import (
	"crypto/x509"
	"errors"
	"fmt"
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
	// Until is when its certificate or token expires; zero if never.
	Until time.Time

	facts facts
}

// facts are what the clients file is matched with. They are kept, because the file may change.
type facts struct {
	names  []string // of a certificate: URI and DNS names, else the common name
	token  [32]byte // SHA-256 of a static token
	issuer string   // of a verified JWT
	claims claims
}

// claims are those of a JWT that clients are told apart by.
type claims struct {
	audience []string
	subject  string
}

// Why somebody is not let in. They are part of the API.
const (
	ReasonNoCredentials     = "NO_CREDENTIALS"      // a certificate or a token is needed
	ReasonTokenInvalid      = "TOKEN_INVALID"       // nobody knows it, or its signature is wrong
	ReasonTokenExpired      = "TOKEN_EXPIRED"       // or it is not valid yet
	ReasonCertificateEnded  = "CERTIFICATE_EXPIRED" // since the connection was made
	ReasonClientUnknown     = "CLIENT_UNKNOWN"      // the credentials are good, and no client in the file is meant
	ReasonKeysUnavailable   = "KEYS_UNAVAILABLE"    // the keys of the issuer could not be had: try again
	ReasonIdentityWithdrawn = "IDENTITY_WITHDRAWN"  // the file changed, and the credentials are another client's or nobody's
)

// ErrUnauthenticated is inside each *UnauthenticatedError.
var ErrUnauthenticated = errors.New("it is not known who this is")

// UnauthenticatedError says why somebody is not let in. It never has what was shown.
type UnauthenticatedError struct {
	Reason string
	Detail string
}

func (e *UnauthenticatedError) Error() string {
	return fmt.Sprintf("%v: %s", ErrUnauthenticated, e.Detail)
}
func (e *UnauthenticatedError) Unwrap() error { return ErrUnauthenticated }
