package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/redis/go-redis/v9"
)

func (s *Store) lookCall(n string) script.Call {
	return s.Scripts.Look.With(layout.LookKeys(n), layout.HoldBase(n)).As(forViews)
}

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	q := question{"look at", name, lock.Exclusive, s.lookCall(s.Prefix + name)}
	return answer(ctx, s, q, func(a *script.Answer) (lock.State, error) { return stateOf(name, a), nil })
}

// Holders implements lock.Store.
func (s *Store) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	n := s.Prefix + name
	size = min(max(size, 1), maxHolders)
	call := s.Scripts.Holders.With([]string{n}, layout.HoldBase(n), size).As(forViews)
	call.Cost += script.CostOf(size)
	q := question{"holders of", name, lock.Exclusive, call}
	return answer(ctx, s, q, func(a *script.Answer) (hs []lock.Holder, _ error) {
		for i := 0; i < len(a.List); i += holderWidth {
			hs = append(hs, lock.Holder{
				Owner: lock.Owner(a.Text(i)), Kind: kindsByName[a.Text(i+1)], Count: countOf(a.Text(i + 2)),
				TTL: script.TTL(a.Int(i + 3)),
			})
		}
		return hs, nil
	})
}

const (
	// maxHolders is how many holders one call reads at most, so that Redis is busy with it for a short time only.
	maxHolders = 1000
	// holderWidth is how many elements script/holders.lua answers for each.
	holderWidth = 4
)

// countOf is how often somebody holds a name, 0 if text is no count that Redisson or lockd writes.
func countOf(text string) uint32 {
	count, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(count)
}

// kindsByName has the kinds by what script/look.lua calls them.
var kindsByName = map[string]lock.Kind{
	lock.Exclusive.String(): lock.Exclusive, lock.Read.String(): lock.Read, lock.Write.String(): lock.Write,
	lock.Semaphore.String(): lock.Semaphore,
}

// stateOf reads an answer of script/look.lua.
func stateOf(name string, a *script.Answer) lock.State {
	st := lock.State{
		Name: name, Kind: kindsByName[a.Text(0)], Held: a.Int(1) == 1, Fence: a.Last(3), Limit: a.Number(7),
		Queued: a.Number(8),
	}
	if st.Queued > 0 && st.Kind <= lock.Exclusive {
		st.Kind = lock.Fair
	}
	if !st.Held {
		return st
	}
	st.TTL, st.Owner, st.Holders = script.TTL(a.Int(2)), lock.Owner(a.Text(4)), a.Number(6)
	st.Count = countOf(a.Text(5))
	return st
}

const (
	// listSteps bounds how many steps of SCAN one List makes while it finds nothing.
	listSteps = 10
	// maxStep bounds how many keys Redis looks at in one step, because it serves nobody else meanwhile.
	maxStep = 1000
	// cursorMark begins each cursor; the cursor of SCAN follows.
	cursorMark = "scan:"
)

// List implements lock.Store. It finds names by their fence keys, so a lock that only Redisson ever took is not listed.
// A page may be a little larger than size, because a step of SCAN may give more keys than it is asked for.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	page, next, err := s.list(ctx, prefix, cursor, size)
	if err != nil {
		return nil, "", fmt.Errorf("list %q: %w", prefix, err)
	}
	return page, next, nil
}

func (s *Store) list(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	if err := lock.Begin(ctx, lock.Exclusive); err != nil {
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
	// The client may have to connect first.
	ctx, cancel := context.WithTimeoutCause(ctx, s.connectTime+s.OpTimeout, pipe.ErrOpTimeout)
	defer cancel()
	begins := s.Prefix + prefix
	keys, next, err := s.lister.Scan(ctx, at, layout.ListPattern(begins), step).Result()
	if err != nil && !errors.As(err, new(redis.Error)) { // whatever was sent, nothing was done
		err = fmt.Errorf("%w: %w", pipe.ErrNotConnected, err)
	}
	if err != nil {
		return nil, 0, s.Failed(err)
	}
	var ns []string
	for _, key := range keys {
		if n, ok := layout.OfToken(key); ok && strings.HasPrefix(n, begins) {
			ns = append(ns, n)
		}
	}
	var page []lock.State
	for some := range slices.Chunk(ns, looksAtOnce) {
		states, err := s.lookAt(some)
		if err != nil {
			return nil, 0, err
		}
		page = append(page, states...)
	}
	return page, next, nil
}

// looksAtOnce is how many looks of a list wait for Redis at a time: as many as the batches under way have room for.
const looksAtOnce = pipe.Window * pipe.MaxBatch

// lookAt returns the states of those locks that are held. The looks go through the pipeline, as the tenant forViews, so
// that other tenants keep their shares.
func (s *Store) lookAt(ns []string) ([]lock.State, error) {
	answers, errs := make([]script.Answer, len(ns)), make([]error, len(ns))
	var looks sync.WaitGroup
	looks.Add(len(ns))
	for i, n := range ns {
		s.Start(s.lookCall(n), func(a script.Answer, err error) {
			answers[i], errs[i] = a, err
			looks.Done()
		})
	}
	looks.Wait()
	var page []lock.State
	for i, n := range ns {
		if errors.Is(errs[i], lock.ErrKindMismatch) {
			continue // the name is in use for something else
		}
		if errs[i] != nil {
			return nil, errs[i]
		}
		st := stateOf(strings.TrimPrefix(n, s.Prefix), &answers[i])
		if err := answers[i].Err; err != nil {
			return nil, err
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
		return 0, lock.Invalid("page_token", lock.ReasonPage, "not a page token of this store")
	}
	return at, nil
}
