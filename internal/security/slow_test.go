package security

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What a question costs that is not answered is over when it is given up.
func TestNothingIsLeftOfAnIssuerThatDoesNotAnswer(t *testing.T) {
	var open atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, to http.ConnState) {
		open.Add(map[http.ConnState]int64{http.StateNew: 1, http.StateClosed: -1}[to])
	}
	server.StartTLS()
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.crt")
	write(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		_, err := source{jwks: server.URL, ca: ca}.load(ctx, "me")
		cancel()
		if err == nil {
			t.Fatal("there were keys")
		}
	}
	until(t, "the connections are closed", func() bool { return open.Load() == 0 })
}

// A file system may not answer. Here it is a pipe into which nobody writes.
func TestAFileThatDoesNotAnswerHoldsUpNobody(t *testing.T) {
	key := newSigner(t, "1")
	jwks := filepath.Join(t.TempDir(), "keys.json")
	pipe := func(path string) { must(t, syscall.Mkfifo(path, 0o600)) }
	pipe(jwks)
	r := newRig(t, of("me", jwks, "app"))
	if got := r.whoHas(t, key.sign(t, claimsNow("me", "app"))); got != ReasonKeysUnavailable {
		t.Errorf("with keys that cannot be read: %q", got)
	}
	must(t, os.Remove(r.path))
	pipe(r.path)
	until(t, "it is said that the file cannot be read", func() bool { return valueOf(r.m.valid) == 0 })
	r.Close()
	for _, path := range []string{jwks, r.path} { // whoever reads them ends
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must(t, err)
		must(t, f.Close())
	}
	audit := filepath.Join(t.TempDir(), "audit")
	pipe(audit)
	if _, err := openAudit(audit); err == nil {
		t.Error("an audit that nobody reads was opened")
	}
}

// A client file may have thousands of clients, and who somebody is is asked for each session when it changes.
func TestWhoSomebodyIsCostsTheSameAmongMany(t *testing.T) {
	key := newSigner(t, "1")
	jwks := filepath.Join(t.TempDir(), "keys.json")
	write(t, jwks, textOf(t, key.public()))
	cost := func(clients int) time.Duration {
		var names []string
		for i := range clients {
			names = append(names, fmt.Sprintf("client-%05d-", i))
		}
		last := names[clients-1]
		r := newRig(t, of("me", jwks, names...))
		i, err := r.Identify(t.Context(), Credentials{Authorization: "Bearer " + key.sign(t, claimsNow("me", last+"x"))})
		if got := whoIs(t, i, err); got != last {
			t.Errorf("%q is %q", last, got)
		}
		least := time.Hour
		for range 50 {
			began := time.Now()
			for range 20 {
				must(t, r.Still(i))
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if few, many := cost(10), cost(3000); many > 20*few {
		t.Errorf("among 10 it takes %v, among 3000 %v", few, many)
	}
}
