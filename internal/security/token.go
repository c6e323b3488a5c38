package security

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

const (
	maxTokenBytes = 16 << 10
	maxAudiences  = 64          // of a token: each takes memory as long as its stream lives
	leeway        = time.Minute // how much clocks may differ
)

// algorithms are those with a public key. They do not include "none", nor those for which the issuer's public key would
// be the secret.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// bearer takes the token out of a header.
func bearer(authorization string) (string, error) {
	scheme, token, found := strings.Cut(authorization, " ")
	token = strings.TrimSpace(token)
	switch {
	case !found || !strings.EqualFold(scheme, "Bearer") || token == "":
		return "", refused(ReasonTokenInvalid, "the authorization must be Bearer with a token")
	case len(token) > maxTokenBytes:
		return "", refused(ReasonTokenInvalid, "the token has more than %d bytes", maxTokenBytes)
	}
	return token, nil
}

// byToken says who shows a token.
func (r *rules) byToken(ctx context.Context, token string, now time.Time) (Identity, error) {
	sum := sha256.Sum256([]byte(token))
	if v := r.kept.get(sum); v != nil {
		if now.Before(v.identity.Until) && v.keys.has(v.key) {
			return v.identity, nil
		}
		r.kept.drop(sum)
	}
	if strings.Count(token, ".") != 2 { // no JWT: that saves making an error
		return r.byHash(sum)
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if wrong := new(jose.ErrUnexpectedSignatureAlgorithm); errors.As(err, &wrong) {
		return Identity{}, refused(ReasonTokenInvalid, "the token is signed in a way that proves nothing, or not at all")
	}
	if err != nil {
		return r.byHash(sum)
	}
	v, err := r.verify(ctx, parsed, now)
	if err != nil {
		return Identity{}, err
	}
	v.bytes = len(token)
	r.kept.put(sum, v)
	return v.identity, nil
}

// byHash says who shows a static token. The time of the lookup may tell how much of a hash is like one in the file.
// That is harmless: not even a whole hash gives the token.
func (r *rules) byHash(sum [32]byte) (Identity, error) {
	return r.identity(facts{shown: shownToken, token: sum}, time.Time{})
}

// identity says who has facts. They are good until expires.
func (r *rules) identity(f facts, expires time.Time) (Identity, error) {
	c, as, err := r.client(&f)
	if err != nil {
		return Identity{}, shownBy(err, as)
	}
	i := Identity{Client: c, By: as, Expires: expires, Until: expires, facts: f}
	if f.shown == shownJWT {
		i.Until = expires.Add(leeway)
	}
	return i, nil
}

// verify says who shows a JWT.
func (r *rules) verify(ctx context.Context, token *jwt.JSONWebToken, now time.Time) (v *verified, err error) {
	var said, c jwt.Claims
	if err := token.UnsafeClaimsWithoutVerification(&said); err != nil {
		return nil, refused(ReasonTokenInvalid, "the claims of the token cannot be read")
	}
	whose := by("unproven jwt", said.Subject+" of "+said.Issuer)
	defer func() { err = shownBy(err, whose) }()
	from := r.issuers[said.Issuer] // the claim is proven once the signature is
	if from == nil {
		return nil, refused(ReasonTokenInvalid, "no client in the clients file has tokens of its issuer")
	}
	header := token.Headers[0]
	candidates, err := from.keys.find(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	for _, k := range candidates {
		if !k.isFor(header.Algorithm) || token.Claims(k.public, &c) != nil {
			continue
		}
		whose = by("jwt", c.Subject+" of "+c.Issuer)
		if err := check(&c, now); err != nil {
			return nil, err
		}
		f := facts{shown: shownJWT, issuer: c.Issuer, claims: claims{audience: c.Audience, subject: c.Subject}}
		i, err := r.identity(f, c.Expiry.Time())
		return &verified{identity: i, keys: from.keys, key: k.thumb}, err
	}
	return nil, refused(ReasonTokenInvalid, "the token has no good signature")
}

// check is nil if a token has what it must have, and is valid now.
func check(c *jwt.Claims, now time.Time) error {
	switch {
	case c.Expiry == nil || c.Subject == "":
		return refused(ReasonTokenInvalid, "the token must have a subject, and a time when it expires")
	case len(c.Audience) > maxAudiences:
		return refused(ReasonTokenInvalid, "the token has more than %d audiences", maxAudiences)
	}
	switch err := c.ValidateWithLeeway(jwt.Expected{Time: now}, leeway); {
	case errors.Is(err, jwt.ErrExpired):
		return refused(ReasonTokenExpired, "the token expired at %s", c.Expiry.Time().Format(time.RFC3339))
	case err != nil:
		return refused(ReasonTokenExpired, "the token is not valid yet")
	}
	return nil
}
