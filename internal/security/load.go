package security

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// patience bounds one read of a file or one fetch from an issuer.
const patience = 5 * time.Second

var errSlow = fmt.Errorf("no answer within %v", patience)

// loading is a read that may be under way. A file system may never answer, and nothing ends such a read. It is for one
// goroutine.
type loading struct{ last chan loaded }

type loaded struct {
	text []byte
	err  error
}

// do calls read, and waits for it for patience at most. If an earlier read has not ended, it waits for that one, and
// begins no other.
func (l *loading) do(ctx context.Context, read func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if len(l.last) > 0 { // the result of the earlier read is too old
		l.last = nil
	}
	if l.last == nil {
		l.last = make(chan loaded, 1)
		go func(to chan<- loaded) {
			text, err := read(ctx)
			to <- loaded{text, err}
		}(l.last)
	}
	select {
	case got := <-l.last:
		l.last = nil
		if ctx.Err() == nil {
			return got.text, got.err
		}
	case <-ctx.Done():
	}
	return nil, errSlow
}

// load fetches the text of an issuer's keys. Its errors contain neither the token that was shown nor what was answered.
func (s source) load(ctx context.Context, issuer string) ([]byte, error) {
	if s.isFile() {
		return readBounded(s.jwks, maxKeysBytes)
	}
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	if s.jwks != "" {
		return s.get(ctx, client, s.jwks)
	}
	text, err := s.get(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return nil, err
	}
	var says struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(text, &says); err != nil || says.Issuer != issuer || !isSafe(says.JWKS) {
		return nil, errors.New("what the issuer says of itself has not its name, or no jwks_uri with https://")
	}
	if hostOf(says.JWKS) != hostOf(issuer) {
		s.token = "" // it is for the issuer
	}
	return s.get(ctx, client, says.JWKS)
}

// client is a client for a few requests: the files may have changed the next time. It keeps no connections, also none
// on which a request was given up: with HTTP/2 nobody else would close that.
func (s source) client() (*http.Client, error) {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}
	if s.ca != "" {
		text, err := readBounded(s.ca, maxKeysBytes)
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("there is no certificate in %s", s.ca)
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		if len(via) > 3 || to.URL.Host != via[0].URL.Host || to.URL.Scheme != via[0].URL.Scheme {
			return errors.New("it wants another host to be asked")
		}
		return nil
	}}, nil
}

func (s source) get(ctx context.Context, client *http.Client, from string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, err
	}
	if s.token != "" {
		token, err := readBounded(s.token, maxTokenBytes)
		if err != nil {
			return nil, err
		}
		shown := strings.TrimSpace(string(token))
		if strings.ContainsFunc(shown, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("there is no token in %s", s.token) // the error of net/http would show it
		}
		req.Header.Set("Authorization", "Bearer "+shown)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", from, resp.StatusCode)
	}
	return readAll(resp.Body, from, maxKeysBytes)
}

// hostOf is the host and port of a URL.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
