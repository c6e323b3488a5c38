package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// kindNames are the kinds as flags explain them.
const kindNames = "exclusive, fair, read, write or semaphore"

func kindFlag(cmd *cobra.Command, k *client.Kind, otherwise string) {
	cmd.Flags().Func("kind", kindNames+"; "+otherwise, func(text string) (err error) {
		*k, err = client.ParseKind(text)
		return err
	})
}

// foundOut is for commands that ask the server for the kind.
const foundOut = "found out if it is not given"

// ofKind calls f with the kind of a lease. If none was given it asks the server how the name is locked. A client that
// has a lease of a name may have lost the right to look at it: then ofKind tries all kinds.
func ofKind[R any](ctx context.Context, s *services, name string, kind client.Kind,
	f func(lockdv1.LockKind) (R, error),
) (r R, err error) {
	if kind != 0 {
		return f(lockdv1.LockKind(kind))
	}
	resp, err := ask(ctx, s, s.locks.Get, &lockdv1.GetRequest{Name: name})
	k := resp.GetLock().GetKind()
	switch {
	case errors.Is(err, client.ErrForbidden):
		return ofAnyKind(f)
	case err != nil:
		return r, err
	case k == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED:
		return r, client.ErrNotHeld
	case k != lockdv1.LockKind_LOCK_KIND_EXCLUSIVE:
		return f(k)
	}
	// Fair works for an exclusive lock, too: it is the same hold in Redis, and the next waiter in the queue is told.
	r, err = f(lockdv1.LockKind_LOCK_KIND_FAIR)
	if errors.Is(err, client.ErrUnsupported) { // a majority of stores has none
		r, err = f(k)
	}
	return r, err
}

// ofAnyKind calls f with one kind after another, until it is that of the lease. With the wrong kind f does nothing.
func ofAnyKind[R any](f func(lockdv1.LockKind) (R, error)) (r R, err error) {
	for _, k := range []client.Kind{client.Fair, client.Exclusive, client.Read, client.Write, client.Semaphore} {
		r, err = f(lockdv1.LockKind(k))
		if !errors.Is(err, client.ErrNotHeld) && !errors.Is(err, client.ErrKindMismatch) &&
			!errors.Is(err, client.ErrUnsupported) {
			return r, err
		}
	}
	return r, client.ErrNotHeld
}

// wanted is what is to be locked, as flags say it.
type wanted struct {
	set            *pflag.FlagSet
	kind           client.Kind
	permits, limit uint32
	also           []string
}

func (w *wanted) flags(cmd *cobra.Command) {
	w.set, w.kind = cmd.Flags(), client.Exclusive
	kindFlag(cmd, &w.kind, "exclusive if it is not given")
	cmd.Flags().Uint32Var(&w.permits, "permits", 0, "how many permits of a semaphore (default 1)")
	cmd.Flags().Uint32Var(&w.limit, "limit", 0,
		"how many permits the semaphore has, if this request is the first to say so")
}

// items are the locks that are wanted, first the one with this name. With --permits or --limit it is a semaphore.
func (w *wanted) items(name string) ([]client.Item, error) {
	kind := w.kind
	if w.set.Changed("permits") || w.set.Changed("limit") {
		if w.set.Changed("kind") && kind != client.Semaphore {
			return nil, usagef("--permits and --limit are for a semaphore, not for --kind %s", kind)
		}
		kind = client.Semaphore
	}
	items := []client.Item{{Name: name, Kind: kind, Permits: w.permits, Limit: w.limit}}
	for _, text := range w.also {
		item, err := parseItem(text, kind)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// parseItem reads NAME, KIND:NAME or :NAME. What stands before the first colon must be a kind or nothing: if another
// word were a part of the name, a mistake in the kind would lock another name, and two programs would not exclude each
// other.
func parseItem(text string, kind client.Kind) (client.Item, error) {
	word, name, colon := strings.Cut(text, ":")
	switch {
	case !colon:
		return client.Item{Name: text, Kind: kind}, nil
	case word == "":
		return client.Item{Name: name, Kind: kind}, nil
	}
	k, err := client.ParseKind(word)
	if err != nil {
		return client.Item{}, usagef("--also %q: what stands before the first colon is a kind (%s), and %q is none; "+
			"the lock named %q is %q", text, kindNames, word, text, ":"+text)
	}
	return client.Item{Name: name, Kind: k}, nil
}
