package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func dial(t testing.TB, addr string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(addr, opts...)
	harness.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func mustLock(t testing.TB, c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, opts...)
	harness.Must(t, err)
	return l
}

func mustLockAll(t testing.TB, c *client.Client, is []client.Item, opts ...client.LockOption) *client.Locks {
	t.Helper()
	ls, err := c.LockAll(t.Context(), is, opts...)
	harness.Must(t, err)
	return ls
}

// pair takes a lock and releases it.
func pair(t testing.TB, c *client.Client, name string) {
	l, err := c.Lock(t.Context(), name)
	if err != nil {
		t.Error(err)
		return
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

// items are those of some names, with a kind after a colon.
func items(names ...string) (all []client.Item) {
	for _, name := range names {
		name, kind, _ := strings.Cut(name, ":")
		k, _ := client.ParseKind(kind)
		all = append(all, client.Item{Name: name, Kind: k})
	}
	return all
}

// holds is what the server says that a client holds.
func holds(c *client.Client, prefix string) (all []client.Held, err error) {
	for h, err := range c.Holds(context.Background(), prefix) {
		if err != nil {
			return all, err
		}
		all = append(all, h)
	}
	return all, nil
}

func wantError(t testing.TB, got error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(got, w) {
			t.Errorf("got error %v, want it to be %q", got, w)
		}
	}
}
