package client_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"localhost":                {"localhost:7420"},
		"localhost:1":              {"localhost:1"},
		"lockd.example.com":        {"lockd.example.com:7420"},
		"192.0.2.1":                {"192.0.2.1:7420"},
		"a, b:1,[::1]:2":           {"a:7420", "b:1", "[::1]:2"},
		"::1":                      {"[::1]:7420"},
		"[::1]":                    {"[::1]:7420"},
		":7421":                    {":7421"},
		"dns:///a.example:7420":    {"dns:///a.example:7420"},
		"dns://8.8.8.8/a.example":  {"dns://8.8.8.8/a.example"},
		"unix:/run/lockd.sock":     {"unix:/run/lockd.sock"},
		"passthrough:///a:1":       {"passthrough:///a:1"},
		"":                         nil,
		"a,,b":                     nil,
		"a,":                       nil,
		"a:":                       nil,
		"a:x":                      nil,
		"a:0":                      nil,
		"a:70000":                  nil,
		"http://a:7420":            nil,
		"a b":                      nil,
		"1:2:3":                    nil,
		"[::1":                     nil,
		"a:1,dns:///b:1,user@c:1":  nil,
		"fe80::1:7420,[fe80::2]:1": {"[fe80::1:7420]:7420", "[fe80::2]:1"}, // the first is an address as a whole
	} {
		got, err := client.Addresses(text, client.DefaultPort)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
		if _, dialErr := client.Dial(text); (dialErr == nil) != (err == nil) {
			t.Errorf("%q: dial: %v", text, dialErr)
		}
	}
	_, err := client.Dial("a:x")
	wantError(t, err, client.ErrInvalid)
}

// Of several servers one that is there is found, and another one when it goes away.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	first, second := harness.StartLockdWith(t), harness.StartLockdWith(t)
	c := dial(t, "127.0.0.1:1,"+first.Addr+","+second.Addr)
	l, err := c.TryLock(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	first.Kill()
	<-l.Lost()
	if l, err := c.TryLock(t.Context(), "n"); err != nil || l.Err() != nil {
		t.Errorf("at the other server: %v", err)
	}
}

// A server that drains is left for the next one while it is still there.
func TestDrainingServerIsLeftForAnother(t *testing.T) {
	t.Parallel()
	first, second := harness.StartLockdWith(t), harness.StartLockdWith(t)
	var seen statuses
	c := dial(t, first.Addr+","+second.Addr, client.WithOnStatus(seen.add))
	old := mustLock(t, c, "old")
	first.Signal(syscall.SIGTERM)
	for !seen.had(client.Draining) {
		time.Sleep(time.Millisecond)
	}
	mustLock(t, c, "new")
	if err := old.Err(); err != nil {
		t.Errorf("the lock at the first server: %v", err)
	}
}
