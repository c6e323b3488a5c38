// Package security tests who is let in and what they may do, with lockd as it is shipped: its clients file,
// certificates, and tokens, of which the test is the issuer.
package security
