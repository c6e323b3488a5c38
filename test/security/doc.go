// Package security tests who is let in and what they may, with lockd as it is shipped: its clients file, certificates,
// and tokens of an issuer that the test is.
package security
