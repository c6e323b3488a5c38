package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/redis/go-redis/v9"
)

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	st, err := s.look(ctx, name)
	if err != nil {
		return lock.State{}, fmt.Errorf("look at %q: %w", name, err)
	}
	return st, nil
}

func (s *Store) look(ctx context.Context, name string) (lock.State, error) {
	if err := begin(ctx, lock.Exclusive); err != nil {
		return lock.State{}, err
	}
	n := s.prefix + name
	a, err := s.ask(ctx, s.scripts.look.with(lookKeys(n), holdBase(n)))
	if err != nil {
		return lock.State{}, err
	}
	st := stateOf(name, &a)
	return st, a.err
}

func lookKeys(n string) []string {
	return []string{n, tokenKey(n), keyOf(queuePrefix, n), permitsOut(n)}
}

// kindsByName are what look.lua calls them.
var kindsByName = map[string]lock.Kind{
	lock.Exclusive.String(): lock.Exclusive, lock.Read.String(): lock.Read, lock.Write.String(): lock.Write,
	lock.Semaphore.String(): lock.Semaphore,
}

// stateOf reads an answer of look.lua.
func stateOf(name string, a *answer) lock.State {
	st := lock.State{
		Name: name, Kind: kindsByName[a.text(0)], Held: a.int(1) == 1, Limit: a.number(7), Queued: a.number(8),
	}
	if st.Queued > 0 && st.Kind <= lock.Exclusive {
		st.Kind = lock.Fair
	}
	if fence, err := strconv.ParseUint(a.text(3), 10, 64); err == nil {
		st.Fence = lock.Fence(fence)
	}
	if !st.Held {
		return st
	}
	st.TTL, st.Owner, st.Holders = ttlOf(a.int(2)), lock.Owner(a.text(4)), a.number(6)
	if count, err := strconv.ParseUint(a.text(5), 10, 32); err == nil { // else not a count of Redisson's or ours
		st.Count = uint32(count)
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

// List implements lock.Store. It finds names by their fence keys, so a lock that only Redisson ever took is not
// listed. A page may be a little larger than size, as Redis gives keys in lumps.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	page, next, err := s.list(ctx, prefix, cursor, size)
	if err != nil {
		return nil, "", fmt.Errorf("list %q: %w", prefix, err)
	}
	return page, next, nil
}

func (s *Store) list(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	if err := begin(ctx, lock.Exclusive); err != nil {
		return nil, "", err
	}
	at, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	step := int64(max(10, min(size, maxStep)))
	for range listSteps {
		var page []lock.State
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
func (s *Store) listStep(ctx context.Context, prefix string, at uint64, step int64) ([]lock.State, uint64, error) {
	// It may have to make its connection first.
	ctx, cancel := context.WithTimeoutCause(ctx, s.connectTime+s.opTimeout, errOpTimeout)
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
func (s *Store) lookAll(ctx context.Context, ns []string) ([]lock.State, error) {
	if len(ns) == 0 {
		return nil, nil
	}
	sc := s.scripts.look
	cmds := make([]*redis.Cmd, len(ns))
	_, err := s.pipe.Pipelined(ctx, func(p redis.Pipeliner) error {
		// Redis may have forgotten the script; nothing can come in between in a pipeline.
		p.ScriptLoad(ctx, sc.text)
		for i, n := range ns {
			cmds[i] = sc.with(lookKeys(n), holdBase(n)).command(ctx, "evalsha", &sc.sha)
			_ = p.Process(ctx, cmds[i])
		}
		return nil
	})
	if err != nil && !errors.As(err, new(redis.Error)) {
		return nil, s.failed(err)
	}
	var page []lock.State
	for i, n := range ns {
		list, err := cmds[i].Slice()
		switch {
		case err == nil:
		case errors.Is(meaning(err), lock.ErrKindMismatch):
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
		return 0, &lock.InvalidError{
			Field: "page_token", Reason: lock.ReasonPage, Detail: "not a page token of this store",
		}
	}
	return at, nil
}
