package cluster

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) (lock.State, error) { return at.Look(ctx, name) })
}

// Holders implements lock.Store.
func (s *Store) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) ([]lock.Holder, error) { return at.Holders(ctx, name, size) })
}

// See implements lock.Store.
func (s *Store) See(ctx context.Context, name string) (lock.Seen, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) (lock.Seen, error) { return at.See(ctx, name) })
}

// List implements lock.Store: it lists one node after the other, in the order of their addresses. A name that moves
// meanwhile may be listed twice, or not at all.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	nodes := s.all()
	if len(nodes) == 0 {
		return nil, "", errNoNode
	}
	at, inner, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if at >= len(nodes) {
		return nil, "", nil // there were more nodes before
	}
	page, next, err := nodes[at].List(ctx, prefix, inner, size)
	if err != nil {
		return nil, "", err
	}
	if next == "" {
		if at++; at == len(nodes) {
			return page, "", nil
		}
	}
	return page, strconv.Itoa(at) + cursorMark + next, nil
}

// cursorMark stands between the number of a node and its own cursor.
const cursorMark = "/"

func parseCursor(cursor string) (node int, inner string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	number, inner, ok := strings.Cut(cursor, cursorMark)
	node, err = strconv.Atoi(number)
	if !ok || err != nil || node < 0 {
		return 0, "", lock.Invalid("page_token", lock.ReasonPage, "not a page token of this store")
	}
	return node, inner, nil
}

// Probe implements lock.Store: all masters must answer, and the identity has those of all of them.
func (s *Store) Probe(ctx context.Context) (string, error) {
	nodes := s.all()
	if len(nodes) == 0 {
		s.refreshSoon()
		return "", errNoNode
	}
	errs := make([]error, len(nodes))
	ids := each(nodes, func(i int, n *node) (id string) {
		id, errs[i] = n.Probe(ctx)
		return id
	})
	if err := errors.Join(errs...); err != nil {
		s.refreshSoon()
		return "", err
	}
	return strings.Join(ids, " "), nil
}
