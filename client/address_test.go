package client_test

import (
	"slices"
	"testing"

	"github.com/lockd-io/lockd/client"
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
