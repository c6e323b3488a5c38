package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errorOf runs lockctl and returns its error.
func errorOf(t *testing.T, args ...string) error {
	t.Helper()
	root := newRoot(&options{})
	root.SetArgs(append([]string{"--connect-timeout", "1ms"}, args...))
	root.SetOut(io.Discard)
	return root.ExecuteContext(t.Context())
}

// Who names a server for clients alone is not answered by the one that runs here.
func TestOperatorsAddressIsNotGuessed(t *testing.T) {
	t.Setenv(addrEnv, "")
	t.Setenv(adminAddrEnv, "")
	commands := [][]string{
		{"doctor"},
		{"drain"},
		{"unlock", "n", "--force", "--reason", "stuck"},
		{"end", "n", "--force", "--reason", "stuck"},
		{"limit", "n", "--remove"},
		{"limit", "n", "3", "--adopt"},
	}
	for _, args := range commands {
		err := errorOf(t, append([]string{"--addr", "127.0.0.1:1"}, args...)...)
		if exitCode(err) != exitUsage || !strings.Contains(message(err), "say --admin-addr") {
			t.Errorf("%q: got %v, want to be asked for --admin-addr", args, err)
		}
	}
	t.Setenv(addrEnv, "127.0.0.1:1")
	if err := errorOf(t, "doctor"); exitCode(err) != exitUsage {
		t.Errorf("got %v with %s, want to be asked for --admin-addr", err, addrEnv)
	}
	for _, args := range commands { // which need no other address than this one
		err := errorOf(t, append([]string{"--admin-addr", "127.0.0.1:2"}, args...)...)
		if exitCode(err) != exitUnavailable || !strings.Contains(message(err), "127.0.0.1:2") {
			t.Errorf("%q: got %v, want nobody to answer at 127.0.0.1:2", args, err)
		}
	}
}

func TestAHostWithoutAnAddressIsNamed(t *testing.T) {
	err := located(status.Error(grpccodes.Unavailable, "name resolver error: produced zero addresses"), "nowhere:7420")
	if got := status.Convert(err).Message(); got != "nowhere:7420: name resolver error: produced zero addresses" {
		t.Errorf("got %s", got)
	}
	said := status.Error(grpccodes.Unavailable, "dial nowhere:7420")
	if got := located(said, "nowhere:7420"); got.Error() != said.Error() {
		t.Errorf("got %v, want it to be named once", got)
	}
}

func TestALongNameIsNotRepeatedWhole(t *testing.T) {
	for _, name := range []string{strings.Repeat("a", 5000), strings.Repeat("ä", 2500)} {
		for _, args := range [][]string{
			{"acquire", name, "--lease", "1s"},
			{"inspect", name},
			{name},
			{"limit", "n", name},
			{"exec", "--kind", name, "n", "--", "true"},
		} {
			err := errorOf(t, append([]string{"--addr", "127.0.0.1:1"}, args...)...)
			if text := message(err); len(text) > 700 || !strings.Contains(text, "(5000 bytes)") {
				t.Errorf("got %d bytes: %.200s", len(text), text)
			}
		}
	}
}

// A port that speaks something else is named as what it is.
func TestAPortThatSpeaksSomethingElseIsNamed(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	at := web.Listener.Addr().String()
	plain := message(errorOf(t, "status", "--addr", at))
	if !strings.Contains(plain, "this is an HTTP port") || strings.Contains(plain, "want TLS") {
		t.Errorf("got %s", plain)
	}
	if secure := message(errorOf(t, "status", "--addr", at, "--tls")); !strings.Contains(secure, "does not speak TLS") {
		t.Errorf("got %s", secure)
	}
}
