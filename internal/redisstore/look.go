package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/broker"
)

// modeField of a hash says that it is a read-write lock; its value is "read" or "write".
const modeField = "mode"

// Look implements broker.Store.
func (s *Store) Look(ctx context.Context, name string) (broker.State, error) {
	st, err := s.look(ctx, name)
	if err != nil {
		return broker.State{}, fmt.Errorf("look at %q: %w", name, err)
	}
	return st, nil
}

func (s *Store) look(ctx context.Context, name string) (broker.State, error) {
	if err := begin(ctx, broker.Exclusive); err != nil {
		return broker.State{}, err
	}
	n := s.prefix + name
	a, err := s.ask(ctx, s.scripts.look, []string{n, tokenKey(n)})
	if err != nil {
		return broker.State{}, err
	}
	st := stateOf(name, &a)
	return st, a.err
}

// stateOf reads an answer of look.lua.
func stateOf(name string, a *answer) broker.State {
	st := broker.State{Name: name}
	if fence, err := strconv.ParseUint(a.text(1), 10, 64); err == nil {
		st.Fence = broker.Fence(fence)
	}
	for i := 2; i < len(a.list); i += 2 {
		field, value := a.text(i), a.text(i+1)
		if field == modeField {
			st.Kind = map[string]broker.Kind{"read": broker.Read, "write": broker.Write}[value]
			continue
		}
		// Of several readers one is named.
		st.Owner = broker.Owner(field)
		count, err := strconv.ParseUint(value, 10, 32)
		if err != nil {
			count = 0 // not a count of Redisson's or ours
		}
		st.Count = uint32(count)
	}
	if st.Owner == "" {
		return st
	}
	st.Held, st.TTL = true, ttlOf(a.int(0))
	if st.Kind == 0 {
		st.Kind = broker.Exclusive
	}
	return st
}

const (
	// listSteps bounds how many steps of SCAN one List makes while it finds nothing.
	listSteps = 10
	// maxStep bounds how many keys Redis looks at in one step, as nobody else is served meanwhile.
	maxStep = 1000
	// cursorMark begins each cursor; the cursor of SCAN follows.
	cursorMark = "scan:"
)

// List implements broker.Store. It finds names by their fence keys, so a lock that only Redisson ever took is not
// listed. A page may be a little larger than size, as Redis gives keys in lumps.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]broker.State, string, error) {
	page, next, err := s.list(ctx, prefix, cursor, size)
	if err != nil {
		return nil, "", fmt.Errorf("list %q: %w", prefix, err)
	}
	return page, next, nil
}

func (s *Store) list(ctx context.Context, prefix, cursor string, size int) ([]broker.State, string, error) {
	if err := begin(ctx, broker.Exclusive); err != nil {
		return nil, "", err
	}
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	step := int64(max(10, min(size, maxStep)))
	for range listSteps {
		var page []broker.State
		if page, at, err = s.listStep(ctx, prefix, at, step); err != nil {
			return nil, "", err
		}
		if at == 0 {
			return page, "", nil
		}
		if len(page) > 0 {
			return page, formatCursor(at), nil
		}
	}
	return nil, formatCursor(at), nil
}

// listStep makes one step of SCAN and looks at what it found.
func (s *Store) listStep(ctx context.Context, prefix string, at uint64, step int64) ([]broker.State, uint64, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	begins := s.prefix + prefix
	keys, next, err := s.pipe.Scan(ctx, at, listPattern(begins), step).Result()
	if err != nil {
		return nil, 0, s.failed(err)
	}
	var ns []string
	for _, key := range keys {
		if n, ok := lockOfToken(key); ok && strings.HasPrefix(n, begins) {
			ns = append(ns, n)
		}
	}
	page, err := s.lookAll(ctx, ns)
	return page, next, err
}

// lookAll returns the states of those locks that are held, in one round trip.
func (s *Store) lookAll(ctx context.Context, ns []string) ([]broker.State, error) {
	if len(ns) == 0 {
		return nil, nil
	}
	sc := s.scripts.look
	cmds := make([]*redis.Cmd, len(ns))
	_, err := s.pipe.Pipelined(ctx, func(p redis.Pipeliner) error {
		// Redis may have forgotten the script; nothing can come in between in a pipeline.
		p.ScriptLoad(ctx, sc.text)
		for i, n := range ns {
			cmds[i] = sc.command(ctx, "evalsha", sc.sha, []string{n, tokenKey(n)}, nil)
			_ = p.Process(ctx, cmds[i])
		}
		return nil
	})
	if err != nil && !errors.As(err, new(redis.Error)) {
		return nil, s.failed(err)
	}
	var page []broker.State
	for i, n := range ns {
		list, err := cmds[i].Slice()
		switch {
		case err == nil:
		case errors.Is(meaning(err), broker.ErrKindMismatch):
			continue // the name is in use for something else
		default:
			return nil, s.failed(err)
		}
		a := answer{list: list}
		st := stateOf(strings.TrimPrefix(n, s.prefix), &a)
		if a.err != nil {
			return nil, a.err
		}
		if st.Held {
			page = append(page, st)
		}
	}
	return page, nil
}

func formatCursor(at uint64) string { return cursorMark + strconv.FormatUint(at, 36) }

func parseCursor(cursor string) (uint64, error) {
	if cursor == "" {
		return 0, nil
	}
	text, known := strings.CutPrefix(cursor, cursorMark)
	at, err := strconv.ParseUint(text, 36, 64)
	if !known || err != nil || at == 0 {
		return 0, &broker.InvalidError{
			Field: "page_token", Reason: broker.ReasonPage, Detail: "not a page token of this store",
		}
	}
	return at, nil
}
