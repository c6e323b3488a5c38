package main

import (
	"strings"
	"testing"
)

// TestTextsThatAreNotUTF8 has each verb refuse them, with a server that is away: nothing of them is sent.
func TestTextsThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	const bad, id = "n\xff", "1234567890123456789012"
	for _, row := range []struct {
		reason string
		args   []string
	}{
		{"INVALID_NAME", []string{"acquire", bad, "--lease", "1s"}},
		{"INVALID_NAME", []string{"extend", bad, id, "--lease", "1s"}},
		{"INVALID_NAME", []string{"release", bad, id}},
		{"INVALID_NAME", []string{"release", bad, id, "--keep", "1"}},
		{"INVALID_NAME", []string{"limit", bad, "3"}},
		{"INVALID_NAME", []string{"inspect", bad}},
		{"INVALID_NAME", []string{"waiters", bad}},
		{"INVALID_NAME", []string{"watch", bad}},
		{"INVALID_NAME", []string{"unlock", bad, "--force", "--reason", "stuck"}},
		{"INVALID_NAME", []string{"ls", "--prefix", bad}},
		{"INVALID_NAME", []string{"exec", bad, "--", "true"}},
		{"INVALID_NAME", []string{"exec", "n", "--also", bad, "--", "true"}},
		{"INVALID_LEASE_ID", []string{"release", "n", bad}},
		{"INVALID_ANNOTATION", []string{"acquire", "n", "--lease", "1s", "--annotation", bad}},
		{"INVALID_ANNOTATION", []string{"exec", "n", "--annotation", bad, "--", "true"}},
		{"INVALID_CLIENT", []string{"acquire", "n", "--lease", "1s", "--client-name", bad}},
		{"INVALID_CLIENT", []string{"exec", "n", "--client-name", bad, "--", "true"}},
		{"INVALID_CLIENT", []string{"exec", "n", "--label", "a=" + bad, "--", "true"}},
	} {
		nowhere := []string{"--addr", "127.0.0.1:1", "--admin-addr", "127.0.0.1:1", "--connect-timeout", "1h"}
		args := append(nowhere, row.args...)
		r := call(t, args...)
		if r.code != exitUsage || !strings.Contains(r.stderr, row.reason+": ") || !strings.Contains(r.stderr, "UTF-8") {
			t.Errorf("lockctl %q: got code %d, %q; want %d and %s", row.args, r.code, r.stderr, exitUsage, row.reason)
		}
	}
}
